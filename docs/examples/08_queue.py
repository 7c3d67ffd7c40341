"""Customers wait for one clerk: a queue of discrete events, without any equation.

The function ``shop`` starts processes on a SimPy environment. Customers arrive at random, one
every 60 s on average, and each customer needs the clerk for 45 s. In theory a customer waits for
67.5 s on average in a long run (M/D/1 queue with a load of 75 %); one day can differ much.

Try next: ``--set shop.service=55`` raises the load to 92 %, and the queue becomes long. Record a
run, and use ``rtsim messages`` to list how long each customer waited.
"""

import simpy

import rtsim as rt
from rtsim.discrete import processes


@processes(
    outputs=rt.Signals("waiting"),
    parameters=rt.Signals("service [s] = 45"),
    messages={"customers": rt.Signals("waited [s]")},
)
def shop(agenda):
    clerk = simpy.Resource(agenda)

    def customer():
        came = agenda.now
        with clerk.request() as turn:
            agenda.write(waiting=len(clerk.queue))
            yield turn
            agenda.write(waiting=len(clerk.queue))
            agenda.send("customers", waited=agenda.now - came)
            yield agenda.timeout(agenda.read("service"))

    def arrivals():
        while True:
            yield agenda.timeout(agenda.random("arrivals").exponential(60.0))
            agenda.process(customer())

    agenda.process(arrivals())


def scenario():
    out = rt.Scenario("queue", until=8 * 3600)
    out.processes(shop)
    return out

"""The client of the gateway bench: ``python -m tools.bench.gateway_client ENDPOINT PID UNTIL``.

Watches all that the run of process PID shows and takes what is published at ENDPOINT, up to UNTIL
(simulated s); prints "on" when it begins, and how many samples and messages it got.
"""

from __future__ import annotations

import sys
import time

import zmq

from rtsim.core.errors import RtsimError
from rtsim.gateway.client import Run, connect

WATCH_HZ = 50.0
_BEFORE_THE_END_S = 0.2


def watch(endpoint: str, pid: int, until_s: float) -> tuple[int, int]:
    """Samples that were watched, and messages that were published."""
    samples = messages = 0
    with zmq.Context() as context, context.socket(zmq.SUB) as subscriber, connected(pid) as flight:
        subscriber.subscribe(b"")
        subscriber.connect(endpoint)
        for sample in flight.watch(*flight.signals, rate=WATCH_HZ):
            samples += 1
            while subscriber.poll(0):
                subscriber.recv_multipart()
                messages += 1
            if sample.state.seconds > until_s - _BEFORE_THE_END_S:
                break
    return samples, messages


def connected(pid: int) -> Run:
    """As soon as it can be reached."""
    for _ in range(600):
        try:
            return connect(pid)
        except RtsimError:
            time.sleep(0.05)
    raise SystemExit("the run cannot be reached")


if __name__ == "__main__":
    print("on", flush=True)
    print(*watch(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))

"""Random scenarios of processes, for the comparison of both paths of their reactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import simpy
from discrete_parts import Steps
from hypothesis import strategies as st
from semantics_parts import INTEGRATOR, copy_input, law_of

from rtsim.components.latency import Fixed, Uniform
from rtsim.core.signals import Signal, Signals
from rtsim.discrete import Agenda, Processes
from rtsim.scenario.scenario import Scenario

UNTIL = 1.0
ACTS = ("add", "write", "pair", "send", "bare", "twice", "record", "change", "now", "work", "wait")


@dataclass(frozen=True)
class Member:
    """One component: its loops (delay and actions), and its connections."""

    loops: Sequence[tuple[float, Sequence[str]]]
    source: str
    hears: bool
    transport: Any
    fails_at: float


def members() -> st.SearchStrategy[Member]:
    delays = st.sampled_from([0.01, 0.02, 0.025, 0.1, 0.0731, -1.0])  # below 0: drawn at random
    loop = st.tuples(delays, st.lists(st.sampled_from(ACTS), min_size=1, max_size=4))
    return st.builds(
        Member,
        loops=st.lists(loop, min_size=1, max_size=3),
        source=st.sampled_from(["", "", "knob.y", "p0.y", "p1.y", "m0.a", "law.y"]),
        hears=st.sampled_from([False, False, True]),
        transport=st.sampled_from([Fixed(0), Fixed(0), Fixed(0), Fixed(0.015), Uniform(0, 0.02)]),
        fails_at=st.sampled_from([9.0, 9.0, 9.0, 0.5, 0.55]),
    )


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "members": draw(st.lists(members(), min_size=1, max_size=3)),
        "law": draw(st.sampled_from([0.0, 0.0, 0.05, 0.3])),
        "plant": draw(st.sampled_from([False, False, False, True])),
        "changes": draw(st.lists(st.sampled_from([0.1, 0.33, 0.5]), max_size=2, unique=True)),
        "checkpoints": draw(st.lists(st.sampled_from([0.2, 0.41, 0.8]), max_size=2, unique=True)),
        "stop": draw(st.sampled_from([None, None, 500_000_000, 555_555_555])),
    }


def _processes(k: int, member: Member, inbox: str) -> Processes:
    def setup(agenda: Agenda) -> None:
        tool = simpy.Resource(agenda)
        total = [0.0]

        def act(name: str) -> Steps:
            total[0] += agenda.read("gain") * agenda.read("u") + 1.0
            if name == "add":
                agenda.write(y=total[0])
            elif name == "write":
                agenda.write(y=1, pair=[total[0], 2.0])
            elif name == "pair":
                agenda.write(pair=(-0.0, agenda.random("pair").normal()))
            elif name == "send":
                agenda.send(f"m{k}", a=total[0], b=agenda.now)
            elif name == "bare":
                agenda.send(f"m{k}", b=3)
            elif name == "twice":
                agenda.send(f"m{k}")
                agenda.send(f"empty{k}")
                agenda.write(y=-1.0)
                agenda.write(y=0.5)
            elif name == "record":
                agenda.record("Noted", f"by {k}", total=total[0])
            elif name == "change":
                agenda.change("knob.y", total[0])
            elif name == "now":
                yield agenda.timeout(0)
            elif name == "work":
                with tool.request() as turn:
                    yield turn
                    yield agenda.timeout(0.003)
            else:
                yield agenda.timeout(1e-9)

        def going(number: int, delay: float, acts: Sequence[str]) -> Steps:
            while True:
                drawn = agenda.random(f"delay {number}").exponential(0.05) if delay < 0 else delay
                yield agenda.timeout(drawn)
                if agenda.now >= member.fails_at:
                    raise ValueError("planned")
                for name in acts:
                    yield from act(name)

        def hearing() -> Steps:
            while True:
                heard = yield agenda.inbox(inbox).get()
                agenda.send(f"empty{k}")
                agenda.write(y=sum(v for v in heard.values() if isinstance(v, float)))
                yield agenda.timeout(0.001)

        for number, (delay, acts) in enumerate(member.loops):
            agenda.process(going(number, delay, acts))
        if inbox:
            agenda.process(hearing())

    return Processes(
        setup, inputs=Signals("u = 0.25"), outputs=Signals("y", Signal("pair", shape=(2,))),
        parameters=Signals("gain = 0.5"),
        messages={f"m{k}": Signals("a = 4", "b"), f"empty{k}": Signals()},
    )  # fmt: skip


def scenario_of(plan: dict[str, Any]) -> Scenario:
    out = Scenario("running", until=UNTIL)
    out.source("knob", Signals("y = 1"))
    known = {"knob", *(f"{p}{k}" for k in range(len(plan["members"])) for p in "pm")}
    if plan["law"]:
        known.add("law")
        law = law_of(copy_input)
        out.controller("law", law, period=plan["law"], inputs={"u": "p0.y"})
    if plan["plant"]:
        out.plant("x", INTEGRATOR, step=0.03, inputs={"u": "p0.y"})
    for k, member in enumerate(plan["members"]):
        source = member.source if member.source.partition(".")[0] in known else 0.25
        inbox = f"p{k - 1}" if k and member.hears else ""
        out.processes(
            f"p{k}", _processes(k, member, inbox), inputs={"u": source or 0.25},
            on=(inbox,) if inbox else (), transport=member.transport,
        )  # fmt: skip
    for time in plan["changes"]:
        out.at(time, "p0.gain", -time)
        out.at(time, "knob.y", time)
    return out

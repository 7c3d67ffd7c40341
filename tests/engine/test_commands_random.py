"""A live F-16 is told anything at any time: it replays bit for bit, and mistakes leave no trace."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from command_parts import Flown, Told
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from random_command_parts import WRONG, right, scenario

from rtsim.engine.checkpoint.file import CheckpointHistory, Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.commands.commands import KINDS, CommandError
from rtsim.models import unstable
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.scenario.scenario import Scenario

MS = 1_000_000
COMMANDS = 500
UNTIL = 2
STANDING = 0.2
"""Share of the commands that come while simulated time stands."""


@dataclass(frozen=True)
class Orders:
    """What a run is told: at tags (ns of the one before), and while it stands."""

    at: dict[int, list[Told]]
    standing: list[Told]

    @classmethod
    def of(cls, seed: int) -> Orders:
        chance = random.Random(seed)
        out = cls({}, [])
        for _ in range(COMMANDS):
            told = right(chance) if chance.random() < 0.7 else chance.choice(WRONG)[0]
            if chance.random() < STANDING:
                out.standing.append(told)
            else:
                out.at.setdefault(chance.randrange(UNTIL * 1000 * MS), []).append(told)
        if seed % 3 == 0:
            out.at.setdefault((UNTIL * 1000 - 200) * MS, []).append({"kind": "quit"})
        return out

    def without_mistakes(self) -> Orders:
        wrong = [told for told, _ in WRONG]

        def followed(told: Sequence[Told]) -> list[Told]:
            return [t for t in told if not any(t is w for w in wrong)]

        return Orders({ns: followed(t) for ns, t in self.at.items()}, followed(self.standing))


class Leg(Flown):
    """One that also notes what is refused before it reaches the run."""

    def __init__(self, *given: Any, **how: Any) -> None:
        self.refused: list[tuple[Told, str]] = []
        super().__init__(*given, **how)

    def give(self, told: Told) -> None:
        try:
            super().give(told)
        except CommandError as error:
            self.refused.append((told, str(error)))

    @property
    def left(self) -> Orders:
        """What it was not told any more."""
        return Orders(self._left, self._standing)


def flown(
    orders: Orders, seed: int, make: Callable[[], Scenario] = scenario, until: float = UNTIL
) -> list[Leg]:
    """In legs, as often as it is restored."""
    legs: list[Leg] = []
    past = CheckpointHistory("0.6")
    while True:
        before = legs[-1] if legs else None
        legs.append(Leg(
            make(), orders.at, orders.standing, lasts_ns=3 * MS, seed=seed, before=before,
            checkpoints=CheckpointSchedule(Ring(100), past=past), until=until,
        ))  # fmt: skip
        assert legs[-1].error is None
        if legs[-1].reason != "restored":
            return legs
        orders = legs[-1].left


def same(a: Recording, b: Recording) -> str:
    return str(compare_exact(a, b))


def check(seed: int) -> list[Leg]:
    orders = Orders.of(seed)
    legs = flown(orders, seed)
    for leg in legs:
        again = rerun(leg.recording, scenario(), start=leg.start)
        assert same(leg.recording, again) == "None"
    plain = flown(orders.without_mistakes(), seed)
    assert [leg.reason for leg in plain] == [leg.reason for leg in legs]
    for one, other in zip(plain, legs, strict=True):
        assert same(one.recording, other.recording) == "None", "mistakes leave no trace"
    with pytest.raises(CommandError, match=r"the run was ended by the command quit at \d"):
        Flown.give(legs[-1], {"kind": "set", "target": "f16.cg", "value": 0.3})
    assert sum(len(leg.events) for leg in legs) > 100
    assert sum(leg.certificate.overruns["compute"] for leg in legs) == 0
    check_answers(legs)
    return legs


def check_answers(legs: list[Leg]) -> None:
    """Each mistake was told what is allowed, and nothing else was refused."""
    told: list[tuple[dict[str, Any], str]] = [
        (dict(told), error) for leg in legs for told, error in leg.refused
    ]
    for leg in legs:
        for command, error, _ in leg.answers:
            listed = {k: list(v) if isinstance(v, tuple) else v
                      for k, v in command.arguments.items()}  # fmt: skip
            told.append(({"kind": command.kind, **listed}, error))
    found = 0
    for data, error in told:
        says = [text for wrong, text in WRONG if repr(sorted(wrong.items())) == _key(data)]
        if says and "the run ended" not in error:
            found += 1
            assert says[0] in error
        elif not says:
            assert error == "" or "the run ended" in error or "there is no checkpoint at" in error
    assert found > 50


def _key(data: dict[str, Any]) -> str:
    return repr(sorted(data.items()))


def small() -> Scenario:
    """A controller of 100 ms whose commands are 30 ms under way, and a fault."""
    out = unstable.scenario(latency=0.03)
    out.faults({"name": "f", "where": "controller", "kind": "drop", "at": 1000})
    return out


def told(kind: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Told]:
    return st.fixed_dictionaries({"kind": st.just(kind), **arguments})


ANYTHING = st.one_of(
    *(told(kind) for kind in ("pause", "resume", "step", "checkpoint")),
    told("rate", rate=st.sampled_from(["max", 0.1, 1.0, 10.0])),
    told("set", target=st.just("plant.stiffness"), value=st.floats(1.0, 3.0)),
    told("set", target=st.just("controller.proportional"), value=st.floats(7.0, 9.0)),
    told("inject", topic=st.just("controller"), value=st.floats(-1.0, 1.0)),
    told("step", tags=st.integers(1, 30)),
    told("step", duration=st.floats(0.01, 0.3)),
    told("step", task=st.just("controller")),
    told("fault", name=st.just("f"), do=st.sampled_from(["start", "clear"])),
    told("mark", text=st.just("here")),
    told("restore", back=st.floats(0.1, 0.5)),
    st.sampled_from([wrong for wrong, _ in WRONG]),
)


@settings(max_examples=settings().max_examples // 20, deadline=None)
@given(
    at=st.dictionaries(st.integers(0, 990 * MS), st.lists(ANYTHING, max_size=4), max_size=12),
    standing=st.lists(ANYTHING, max_size=12), seed=st.integers(0, 99),
)  # fmt: skip
def test_anything_replays_and_mistakes_leave_no_trace(
    at: dict[int, list[Told]], standing: list[Told], seed: int
) -> None:
    orders = Orders(at, standing)
    legs = flown(orders, seed, small, 1)
    for leg in legs:
        assert same(leg.recording, rerun(leg.recording, small(), start=leg.start)) == "None"
    plain = flown(orders.without_mistakes(), seed, small, 1)
    for one, other in zip(plain, legs, strict=True):
        assert same(one.recording, other.recording) == "None"


@pytest.mark.rule("told-at-a-tag")
@pytest.mark.rule("refused-changes-nothing")
def test_500_random_commands_replay_and_mistakes_leave_no_trace() -> None:
    legs = check(3)
    assert len(legs) > 2
    assert legs[-1].reason == "quit"
    followed = {kind for leg in legs for _, kind in leg.events}
    assert followed == set(KINDS)


@pytest.mark.full
@settings(max_examples=20, deadline=None, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_500_random_commands_replay_many_times(seed: int) -> None:
    check(seed)

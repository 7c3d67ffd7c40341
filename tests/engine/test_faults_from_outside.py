"""Kinds of faults that rtsim does not ship: one class each, one registration, no other file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from fault_parts import count, flown, ramp, sampled, told

from rtsim.components.latency import Fixed
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Vector
from rtsim.engine.faults import FaultError, read_faults
from rtsim.engine.faults.at_loop import LoopFault
from rtsim.engine.faults.at_messages import Delays, MessageFault
from rtsim.engine.faults.at_signals import SignalFault
from rtsim.engine.faults.description import KINDS, OWN_KINDS, add_fault_kind
from rtsim.engine.faults.kind import FaultKind, Parameter
from rtsim.engine.faults.line_kinds import BoardFault, LineFault, Timed
from rtsim.record.events import described, spans
from rtsim.testing.faults import check_fault_kind


class Echo(MessageFault):
    """The message arrives ``copies`` times more, 1 ms apart."""

    name = "echo"
    does = "is echoed"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter("copies", "natural"),)

    def spoil(self, delays: Delays) -> Delays:
        more = range(1, int(self.fault.parameters["copies"]) + 1)
        return delays + tuple(d + k * 1_000_000 for d in delays for k in more)


class Growing(MessageFault):
    """Each struck message is held back ``step`` s longer than the struck one before it."""

    name = "growing_delay"
    does = "takes longer and longer"
    parameters = (Parameter("step", "seconds"),)
    struck = 0

    def spoil(self, delays: Delays) -> Delays:
        self.struck += 1
        return tuple(d + self.struck * self.ns("step") for d in delays)

    def save(self) -> dict[str, Any]:
        return {**super().save(), "struck": self.struck}

    def restore(self, saved: dict[str, Any]) -> None:
        super().restore(saved)
        self.struck = saved["struck"]


class Dead(SignalFault):
    """Values of a size below ``width`` are read as 0."""

    name = "dead_zone"
    does = "is dead around 0"
    parameters = (Parameter("width", "positive"),)

    def apply(self, value: Vector) -> None:
        value[np.abs(value) < self.fault.parameters["width"]] = 0.0


class Inverted(LineFault):
    """Every bit of a struck byte is inverted."""

    name = "inverted"
    does = "is inverted"

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        if self.struck(ticks):
            value ^= 0xFF
            self.tell(ticks, f"byte {self.count} is {value:#04x} on the line")
        out.append((ticks, value))


class Unplugged(BoardFault):
    """The supply of the board is cut."""

    name = "unplugged"
    does = "loses its supply"
    needs = "cut_supply"

    @classmethod
    def strike(cls, link: Any) -> None:
        link.cut_supply()


class Hiccup(LoopFault):
    """A frame takes ``amount`` s longer, once."""

    name = "hiccup"
    does = "the loop waits for"
    parameters = (Parameter("amount", "seconds"),)
    moment = "frame"
    brief = True


class Asleep(LoopFault):
    """A tick is lost, once."""

    name = "asleep"
    does = "sleeps"
    moment = "tick"
    brief = True


OUTSIDE: list[type[FaultKind]] = [Echo, Growing, Dead, Inverted, Unplugged, Hiccup, Asleep]
NEEDED: dict[str, dict[str, float]] = {
    "echo": {"copies": 2}, "growing_delay": {"step": 0.003}, "dead_zone": {"width": 0.1},
    "hiccup": {"amount": 0.02},
    "stuck": {}, "offset": {"amount": 0.1}, "scale": {"factor": 0.9}, "drift": {"rate": 0.1},
    "noise": {"deviation": 0.01}, "quantised": {"step": 0.01},
    "delay": {"delay": 0.01}, "duplicate": {"gap": 0.01}, "reorder": {"extra": 0.15},
    "burst": {"length": 2}, "garbage": {"length": 3}, "slow_line": {"baud": 9600},
    "truncation": {"keep": 2}, "bit_flip": {"bit": 3}, "stall": {"amount": 0.03},
    "late_wake": {"amount": 0.03}, "slow_job": {"amount": 0.002},
    "load": {"amount": 0.02, "length": 4},
}  # fmt: skip


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KINDS, "_added", {})
    for kind in OUTSIDE:
        add_fault_kind(kind)


def fault(kind: str, where: str, **entries: Any) -> dict[str, Any]:
    return {"name": "f", "where": where, "kind": kind, **entries}


NAMES = [*OWN_KINDS, *(kind.name for kind in OUTSIDE)]
NAMES.remove("nan")  # a controller that is given NaN ends the run of the checks


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", NAMES)
def test_every_kind_passes_the_checks(name: str) -> None:
    check_fault_kind(name, **NEEDED.get(name, {}))


def test_a_message_fault_from_outside_runs() -> None:
    """Before, one that was only described passed every check and raised KeyError in the run."""
    link = ramp(law=count, transport=Fixed(0.01))
    recording = flown(link, fault("echo", "controller", copies=2, at=0.5, count=1))
    track = recording.track("messages/controller")
    fifth = track.integer("sequence") == 5
    assert ((track.integer("arrival")[fifth] - 510_000_000) // 1_000_000).tolist() == [0, 1, 2]
    (event,) = told(recording)
    assert event.text == "echo at controller: message 5 is echoed"


def test_a_signal_fault_from_outside_runs() -> None:
    recording = flown(ramp(), fault("dead_zone", "controller.u", width=0.35))
    assert np.allclose(sampled(recording), [0, 0, 0, 0, *np.arange(4, 11) / 10])


def test_a_brief_kind_is_marked_as_one_item_in_a_report() -> None:
    """A reader who does not know the kind is told when it is over."""
    recording = flown(ramp(), fault("asleep", "loop.controller", at=0.3))
    assert [(e.kind, e.tag.seconds) for e in told(recording)] == [
        ("Fault", 0.3), ("FaultEnded", 0.3),
    ]  # fmt: skip
    (span,) = spans(recording.events, described(recording.header), recording.end_ns)
    assert (span.began, span.ended) == (0.3, 0.3)


def test_an_unknown_kind_is_refused_when_the_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text('[[fault]]\nname = "f"\nwhere = "controller"\nkind = "ecko"\n')
    with pytest.raises(FaultError, match=r"faults.toml:4: unknown kind 'ecko'; did you mean echo"):
        read_faults(path)


def test_a_broken_package_is_an_error_at_the_line_that_names_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import EntryPoint

    entry = EntryPoint("lost_in_space", "no_such_module:Kind", "rtsim.faults")
    monkeypatch.setattr("rtsim.core.extension_point.entry_points", lambda **_: [entry])
    path = tmp_path / "faults.toml"
    path.write_text('[[fault]]\nname = "f"\nwhere = "controller"\nkind = "lost_in_space"\n')
    with pytest.raises(FaultError, match=r"toml:4: fault kind 'lost_in_space' comes from no"):
        read_faults(path)
    path.write_text('[[fault]]\nname = "f"\nwhere = "controller"\nkind = "drop"\n')
    assert read_faults(path)[0].kind.name == "drop"


class WithoutAMethod(MessageFault):
    name = "incomplete"
    does = "is incomplete"


class OfNoLevel(FaultKind):
    name = "of_no_level"
    does = "is nowhere"


class Overlapping(Echo):
    name = "overlapping"
    parameters = (Parameter("count", "natural"),)


class Unchecked(Echo):
    name = "unchecked"
    parameters = (Parameter("copies", "some"),)  # type: ignore[arg-type]


class OfAnotherName(Echo):
    name = "another"


class Untimed(LoopFault):
    name = "untimed"
    does = "takes nothing"
    moment = "frame"


class AtNoMoment(LoopFault):
    name = "at_no_moment"
    does = "never comes"
    moment = "noon"  # type: ignore[assignment]


class Lengthless(Echo):
    name = "lengthless"
    has_length: ClassVar[bool] = True


class Speechless(MessageFault):
    name = "speechless"

    def spoil(self, delays: Delays) -> Delays:
        return delays


@pytest.mark.parametrize(
    ("name", "made", "said"),
    [
        ("incomplete", WithoutAMethod, "has no method spoil; define it in WithoutAMethod"),
        ("of_no_level", OfNoLevel, "has no method check_where, put; .* a subclass of SignalFault"),
        (
            "overlapping",
            Overlapping,
            "parameter count has the same name as another entry",
        ),
        ("unchecked", Unchecked, "parameter copies has the check 'some'; choose one of number"),
        ("one", OfAnotherName, "another name in its class, OfAnotherName.name = 'another'"),
        ("untimed", Untimed, "Untimed does not say how much; define a method takes"),
        ("at_no_moment", AtNoMoment, "needs an attribute moment, one of frame, wake, job"),
        ("lengthless", Lengthless, "has has_length = True but no parameter length; add"),
        ("speechless", Speechless, "Speechless needs a text as the attribute does"),
        ("number", 3, "is 3; expected a subclass of SignalFault, MessageFault"),
        ("drop", Echo, "'drop' is rtsim's own"),
    ],
)
def test_an_incomplete_kind_is_refused_when_it_is_registered(
    name: str, made: Any, said: str
) -> None:
    with pytest.raises(ScenarioError, match=said):
        KINDS.add(name, made)
    assert name not in KINDS or name in OWN_KINDS


class Forgetful(Growing):
    """Keeps a number that a checkpoint does not hold."""

    name = "forgetful"
    save = MessageFault.save
    restore = MessageFault.restore


class Counting(Echo):
    """Keeps a number beyond its run."""

    name = "counting"
    parameters = ()
    calls: ClassVar[list[int]] = []

    def spoil(self, delays: Delays) -> Delays:
        self.calls.append(0)
        return tuple(d + len(self.calls) for d in delays)


class Idle(LineFault):
    """Does nothing to any byte."""

    name = "idle"
    does = "is as it was"

    def one(self, ticks: int, value: int, out: list[Timed]) -> None:
        out.append((ticks, value))


@pytest.mark.parametrize(
    ("kind", "entries", "said"),
    [
        (Forgetful, {"step": 0.003}, "from a checkpoint ends in another state"),
        (Counting, {}, "counting: two runs differ"),
        (Idle, {}, "idle reported no event for 18 bytes"),
    ],
)
def test_the_checks_find_a_broken_kind(
    kind: type[FaultKind], entries: dict[str, float], said: str
) -> None:
    add_fault_kind(kind)
    with pytest.raises(AssertionError, match=said):
        check_fault_kind(kind.name, **entries)

"""``check_medium`` finds each violation of the contract of a medium."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from rtsim.components.latency import not_saved, remembers_nothing
from rtsim.components.lines import Lines
from rtsim.components.medium import Carrier, Delivery, Entry, Hop, Outcome, Transmission
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.testing import check_medium


class Forgetful(Lines):
    """Loses each fifth message without a trace."""

    def _enter(self, entry: Entry) -> None:
        if entry.number % 5:
            super()._enter(entry)


class Uncounted(Lines):
    """Loses messages, and does not count them."""

    @property
    def lost(self) -> dict[str, dict[str, int]]:
        return {}


class Unsaved(Lines):
    """Does not save the time at which a line becomes free."""

    def _save_state(self) -> Any:
        return {name: [0, queue.until_ns] for name, queue in self._queues.items()}


class NotPlain(Lines):
    def _save_state(self) -> Any:
        return {name: np.array([q.free_ns, q.until_ns]) for name, q in self._queues.items()}


class Late(Lines):
    """Announces a message after its arrival."""

    def decide(self, ns: int) -> list[Outcome]:
        return [
            one._replace(arrival=Tag(ns)) if isinstance(one, Delivery) else one
            for one in super().decide(ns)
        ]


class Fractional(Lines):
    def decide(self, ns: int) -> list[Outcome]:
        return [
            one._replace(arrival=Tag(one.arrival.ns + 0.5))  # type: ignore[arg-type]
            if isinstance(one, Delivery)
            else one
            for one in super().decide(ns)
        ]


class Standing(Lines):
    """Never decides."""

    def decide(self, ns: int) -> list[Outcome]:  # noqa: ARG002
        return []


class Overtaking(Lines):
    """Delays each second arrival by 1 s."""

    def decide(self, ns: int) -> list[Outcome]:
        return [
            one._replace(arrival=Tag(one.arrival.ns + one.parcel.sequence % 2 * 10**9))
            if isinstance(one, Delivery)
            else one
            for one in super().decide(ns)
        ]


class Twice(Lines):
    def decide(self, ns: int) -> list[Outcome]:
        return super().decide(ns) * 2


DRAWN = RandomStreams(7).stream("outside")


class Outside(Lines):
    """Draws random numbers that do not belong to the run."""

    def _transmit(self, queue: Any, entry: Entry, ns: int) -> list[Outcome]:
        if DRAWN.random() < 0.1:
            queue.free_ns = ns + 1
            return [self._lose(entry, "chance")]
        return super()._transmit(queue, entry, ns)


class FirstCome(Lines):
    """Prefers the message that was put first, whatever its priority."""

    def _enter(self, entry: Entry) -> None:
        order = (entry.number,)
        changed = entry.transmission._replace(priority=order)
        super()._enter(Entry(entry.ready_ns, entry.number, entry.parcel, changed, entry.at))


@dataclass(frozen=True)
class Wire:
    """A medium whose state is one of the classes above."""

    state: Callable[[str], Lines]
    name: str = "wire"

    def check(self, topics: Iterable[Any]) -> None:
        pass

    def start(self, streams: RandomStreams) -> Lines:  # noqa: ARG002
        return self.state(self.name)


@dataclass(frozen=True)
class OnWire:
    medium: Wire
    ordered: bool = True

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        return (0,)

    def carrier(self, signals: Signals, topic: str) -> Carrier:  # noqa: ARG002
        def carry(values: Vector) -> Transmission:
            return Transmission((0,), (Hop(1_000_000),), values.copy())

        return carry

    def __repr__(self) -> str:
        return f"OnWire({self.medium.state.__name__})"


def check(state: Callable[[str], Lines], **options: Any) -> None:
    transports = {name: OnWire(Wire(state)) for name in ("a", "b", "c")}
    check_medium(transports, runs=False, **options)


def test_a_plain_line_passes() -> None:
    check(Lines)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (Forgetful, "200 messages were sent, but 160 have an outcome; the others disappeared"),
        (Uncounted, r"messages were lost, but the medium counts 0"),
        (Unsaved, "a medium that was restored after .* decisions has other outcomes"),
        (NotPlain, "save\\(\\) must return plain data: .*ndarray"),
        (Late, "the medium decides at .* ns; it must decide before the arrival"),
        (Fractional, "arrivals must be whole ns"),
        (Standing, "after the decision at .* ns; it must be later"),
        (Overtaking, "messages of . overtake each other"),
        (Twice, "a message has several outcomes"),
        (Outside, "two runs have different outcomes; draw random numbers only from the streams"),
        (FirstCome, "the outcomes depend on the order in which senders are declared"),
    ],
)
def test_each_violation_is_found(state: Callable[[str], Lines], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check(state)


def test_a_transport_with_a_medium_of_another_package_has_no_state() -> None:
    """A run can be prepared, and a checkpoint misses nothing."""
    transport = OnWire(Wire(Lines))
    assert remembers_nothing(transport)
    assert not any(not_saved(transport))


def test_transports_of_several_media_are_refused() -> None:
    one, two = OnWire(Wire(Lines)), OnWire(Wire(Lines, "other"))
    with pytest.raises(AssertionError, match="all transports must have the same medium"):
        check_medium({"a": one, "b": two})
    with pytest.raises(AssertionError, match="at least one sender"):
        check_medium({})

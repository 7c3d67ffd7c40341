"""One viewer has the stick; who hangs or dies loses it, who was stopped finds it taken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rtsim.core.signals import Signals
from rtsim.pilot import shared
from rtsim.pilot.shared import FREE_NS, Schema, Shared
from rtsim.pilot.viewer.state import Picture, Telling

MS = 1_000_000


class Room:
    """A run's file, and a clock."""

    def __init__(self, folder: Path) -> None:
        schema = Schema((("moon", Signals("x")),), Signals("pitch"), {"pid": 0})
        self.shared = Shared.create(schema, folder)
        self.now = 10**15

    def viewer(self) -> Telling:
        return Telling(Shared.open(self.shared.path), lambda: self.now)

    def move(self, telling: Telling, pitch: float) -> bool:
        self.now += MS
        return telling.stick(np.array([pitch]), self.now, self.now, lost=False)

    @property
    def pitch(self) -> float:
        record = self.shared.reader("stick").read()
        assert record is not None
        return float(record.floats[0])


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_the_first_one_flies_the_second_one_watches(room: Room) -> None:
    first, second = room.viewer(), room.viewer()
    assert room.move(first, 0.5)
    assert not room.move(second, -0.5)
    assert room.pitch == 0.5
    assert not second.order(shared.QUIT)
    second.figures({"frames": 7})
    assert room.shared.reader("orders").number == room.shared.reader("viewer").number == 0


def test_one_that_closes_leaves_it_at_once(room: Room) -> None:
    first, second = room.viewer(), room.viewer()
    room.move(first, 0.5)
    assert first.order(shared.MARK)
    assert not room.move(second, -0.5)
    first.leave()
    assert room.move(second, -0.5)
    assert second.order(shared.QUIT)
    record = room.shared.reader("orders").read()
    assert record is not None
    assert record.integers[:3].tolist() == [2, shared.MARK, shared.QUIT]


def test_one_that_was_stopped_finds_it_taken(room: Room) -> None:
    first, second = room.viewer(), room.viewer()
    room.move(first, 0.5)
    assert not room.move(second, -0.5)
    room.now += FREE_NS - 2 * MS
    assert not room.move(second, -0.5)
    room.now += MS
    assert room.move(second, -0.5)
    assert not room.move(first, 0.9)
    assert not first.order(shared.QUIT)
    assert room.pitch == -0.5
    first.leave()  # which it cannot
    assert room.move(second, -0.4)
    assert room.pitch == -0.4


def test_two_that_reach_for_it_at_once_are_one_in_the_end(room: Room) -> None:
    first, second = room.viewer(), room.viewer()
    first._hold_authority(), second._hold_authority()
    room.move(first, 0.1)
    room.move(second, 0.2)
    flying = [room.move(first, 0.3), room.move(second, 0.4)]
    assert sum(flying) == 1


def test_the_interpolations_part_is_how_long_before_the_newest_state(room: Room) -> None:
    picture = Picture(room.shared)
    writer = room.shared.writer("plant/moon")

    def publish(applied: int) -> None:
        writer.integers[:] = (0, 20 * MS, 100 * MS, 120 * MS, 0, applied, 90 * MS)
        writer.publish()
        picture.look()

    publish(0)
    for applied, wall in ((1, 105 * MS), (2, 120 * MS), (3, 131 * MS), (4, 125 * MS)):
        publish(applied)
        picture.at(wall, 16 * MS)
        picture.drawn(wall)
    assert picture.interpolation.count == picture.latency.count == 4
    assert picture.interpolation.greatest == 15 * MS
    assert picture.interpolation.quantile(0.5) == 0  # at the newest one, and beyond it
    assert picture.latency.greatest == 41 * MS

"""Who is served at another machine, who is not and hears why, and how that ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pygame
import pytest
from pilot_line import Line, Machines, Served

from rtsim.pilot import relay
from rtsim.pilot.launching import Window
from rtsim.pilot.remote import Remote
from rtsim.pilot.shared import MOST_BYTES, Schema, Shared, SharedError
from rtsim.pilot.viewer.process import watch
from rtsim.pilot.wire import RECORDS, TO_RUN, Format, Head
from rtsim.signals import Signal, Signals
from rtsim.sockets import keys_of

MOON = Schema((("moon", Signals("x [m]", "v [m/s]")),), Signals("pitch", "roll"), {"pid": 0})


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    shared = Shared.create(MOON, tmp_path)
    yield Machines(shared, MOON)
    shared.close()


def test_a_schema_that_takes_too_much_is_refused_before_it_is_given_memory(
    machines: Machines,
) -> None:
    plants = tuple((f"p{k}", Signals(Signal("x", shape=(40_000,)))) for k in range(40))
    greedy = Schema(plants)
    assert greedy.places()[1] > MOST_BYTES
    line = Line(machines.served, b"a")
    line.come.append(Format(greedy).schema())
    with pytest.raises(SharedError, match=f"at most {MOST_BYTES}"):
        Remote.by(line, patience_s=5.0)


@pytest.mark.parametrize(
    "about", [{"cues": 5}, {"cues": [5]}, {"cues": [{}]}, {"scene": "f16", "runway": "x"}]
)
def test_a_scene_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, about: dict[str, object]
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    schema = Schema(MOON.plants, MOON.stick, {"pid": 0, **about})
    shared = Shared.create(schema, tmp_path)
    with pytest.raises(SharedError, match="what the run says of its scene cannot be read"):
        watch(shared, Window(headless=True, size="160x120"), threading.Event())
    assert not pygame.display.get_init()
    shared.close()


def test_a_viewers_messages_are_short() -> None:
    format = Format(MOON)
    shapes = dict(MOON.shapes())
    whole = format.records(Head(RECORDS, 1), {name: bytes(shapes[name].payload) for name in TO_RUN})
    assert [len(data) for data in whole] == [format.most_to_run]
    assert format.most_to_run < 1000


class Closed(Served):
    """A socket of which nothing is real but what it was opened with."""

    opened: tuple[object, ...] = ()

    def __call__(self, *arguments: object) -> Closed:
        self.opened = arguments
        return self

    def wait(self, milliseconds: int) -> None: ...

    def close(self) -> None: ...


def test_of_a_run_that_was_killed_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay from its first line to its last: its input is closed, which is all it notices."""
    over, line, keys = threading.Event(), Closed(), tmp_path / "keys"
    over.set()
    keys_of(keys)
    shared = Shared.create(MOON, tmp_path)
    Line(line, b"a").send(Format(MOON).records(Head(RECORDS, 1), {})[0])
    monkeypatch.setattr(relay, "ends_with_input", lambda: over)
    monkeypatch.setattr(relay, "Listener", line)
    assert relay.main([str(shared.path), "tcp://127.0.0.1:1", "--keys", str(keys)]) == 0
    assert not shared.path.exists()
    assert isinstance(line.opened[2], int)
    assert Format(MOON).most_to_run < line.opened[2] < 10_000

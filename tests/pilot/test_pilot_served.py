"""Who is served at another machine, who is not and hears why, and how that ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pygame
import pytest
from pilot_line import MOON, Line, Machines, Served

from rtsim.core.net.messagepack import pack, unpack
from rtsim.core.net.sockets import keys_of
from rtsim.core.signals import Signal, Signals
from rtsim.pilot import remote
from rtsim.pilot.processes import Window
from rtsim.pilot.remote import (
    FULL,
    HELLO,
    MOST_UNDER_WAY,
    MOST_VIEWERS,
    OVER,
    RECORDS,
    SCHEMA,
    TO_RUN,
    Format,
    Head,
    OtherVersion,
    RemoteExchange,
)
from rtsim.pilot.shared import MOST_BYTES, Schema, Shared, SharedError
from rtsim.pilot.viewer.process import watch


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with closing(Machines(tmp_path)) as both:
        yield both


def publish(machines: Machines) -> None:
    writer = machines.shared.writer("plant/moon")
    writer.floats[0] += 1.0
    writer.publish()


def of_version(data: bytes, version: int) -> bytes:
    """The same message as another release would send it."""
    return pack([version, *unpack(data)[1:]])


# -- who is one too many


def test_one_viewer_too_many_is_told_so_when_it_asks(machines: Machines) -> None:
    for k in range(MOST_VIEWERS):
        machines.viewer(b"%d" % k)
    publish(machines)
    machines.pass_by(10)
    with pytest.raises(SharedError, match=rf"tcp://elsewhere:5998: {FULL}"):
        RemoteExchange.over_line(
            machines.answered(b"late"), patience_s=5.0, clock=machines.time.here
        )
    assert machines.relay.skipped == 0


def test_and_also_where_it_finds_the_last_place_taken(machines: Machines) -> None:
    remotes = [machines.viewer(b"%d" % k)[0] for k in range(MOST_VIEWERS + 1)]
    publish(machines)
    machines.pass_by(10)
    assert [remote.over for remote in remotes] == [""] * MOST_VIEWERS + [FULL]
    assert machines.relay.skipped == 0


# -- who is of another release


def test_a_greeting_of_any_release_is_answered(machines: Machines) -> None:
    hello = Format(None).hello()
    for data in (hello, of_version(hello, 99), pack([3, HELLO, "something", "else"])):
        line = Line(machines.served, b"a")
        line.send(data)
        machines.relay.turn()
        assert Format(None).read(line.come.popleft()).head.kind == SCHEMA
    assert machines.relay.skipped == 0
    with pytest.raises(OtherVersion):
        Format(MOON).read(of_version(Format(MOON).records(Head(RECORDS), {})[0], 99))


def test_a_run_of_another_release_is_told(machines: Machines) -> None:
    line = Line(machines.served, b"a")
    line.come.append(of_version(Format(MOON).schema(), 99))
    with pytest.raises(
        SharedError, match=r"another release of rtsim .*version 99.*use the same release"
    ):
        RemoteExchange.over_line(line, patience_s=5.0)
    line = Line(machines.served, b"b")
    version, kind, _, *rest = unpack(Format(MOON).schema())
    line.come.append(pack([version, kind, bytes(8), *rest]))  # the fields in another order there
    with pytest.raises(SharedError, match="uses the record layout of another release"):
        RemoteExchange.over_line(line, patience_s=5.0)


# -- what is claimed


def test_a_schema_that_takes_too_much_is_refused_before_it_is_given_memory(
    machines: Machines,
) -> None:
    plants = tuple((f"p{k}", Signals(Signal("x", shape=(40_000,)))) for k in range(40))
    greedy = Schema(plants)
    assert greedy.places()[1] > MOST_BYTES
    line = Line(machines.served, b"a")
    line.come.append(Format(greedy).schema())
    with pytest.raises(SharedError, match=f"the limit is {MOST_BYTES}"):
        RemoteExchange.over_line(line, patience_s=5.0)


@pytest.mark.parametrize(
    "about", [{"cues": 5}, {"cues": [5]}, {"cues": [{}]}, {"scene": "f16", "runway": "x"}]
)
def test_a_scene_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, about: dict[str, object]
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    schema = Schema(MOON.plants, MOON.stick, {"pid": 0, **about})
    shared = Shared.create(schema, tmp_path)
    with pytest.raises(SharedError, match="the scene of the run cannot be created"):
        watch(shared, Window(headless=True, size="160x120"), threading.Event())
    assert not pygame.display.get_init()
    shared.close()


def test_a_viewers_messages_are_short() -> None:
    format = Format(MOON)
    shapes = dict(MOON.shapes())
    whole = format.records(Head(RECORDS, 1), {name: bytes(shapes[name].payload) for name in TO_RUN})
    assert len(whole) == 1
    assert len(whole[0]) < format.most_to_run < 10_000


# -- the end


def test_the_end_is_told_past_all_that_is_under_way(machines: Machines) -> None:
    remote, line = machines.viewer(b"a")
    publish(machines)
    machines.pass_by(10)
    line.receive = lambda _: None  # type: ignore[method-assign,assignment]
    for _ in range(50 * MOST_UNDER_WAY):
        publish(machines)
        machines.pass_by(1)
    assert [remote.over] == [""]
    machines.relay.end("the run was killed")
    del line.receive
    remote.look()
    assert remote.over == "the run was killed"


def test_a_reason_is_a_line_for_a_person() -> None:
    format = Format(MOON)
    for data, read in (
        (format.over("a\x1b[2J\nb"), "a [2J b"),
        (format.over("x" * 5000), "x" * 400),
        (format.over(""), "no reason is given"),
    ):
        assert format.read(data).text == read


class Closed(Served):
    """A socket of which nothing is real but what it was opened with."""

    opened: tuple[object, ...] = ()

    def __call__(self, *arguments: object) -> Closed:
        self.opened = arguments
        return self

    def wait(self, milliseconds: int) -> None: ...

    def close(self) -> None: ...


def test_of_a_run_that_was_killed_nothing_is_left_and_its_viewers_hear_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay from its first line to its last: its input is closed, which is all it notices."""
    over, line, keys = threading.Event(), Closed(), tmp_path / "keys"
    over.set()
    keys_of(keys)
    shared = Shared.create(MOON, tmp_path)
    Line(line, b"a").send(Format(MOON).records(Head(RECORDS, 1), {})[0])
    monkeypatch.setattr(remote, "input_closed", lambda: over)
    monkeypatch.setattr(remote, "ListeningSocket", line)
    assert remote.main([str(shared.path), "tcp://127.0.0.1:1", "--keys", str(keys)]) == 0
    assert not shared.path.exists()
    last = Format(MOON).read(line.lines[b"a"].come[-1])
    assert (last.head.kind, last.text) == (OVER, remote.ENDED)
    assert line.opened[2] == Format(MOON).most_to_run

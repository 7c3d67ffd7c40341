"""A viewer at another machine: the same records, latest only, by this machine's clock.

Who is served at another machine, who is not and hears why, and how that ends.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pygame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pilot_line import AHEAD, MOON, MS, Line, Machines, Served

from rtsim.core.net.messagepack import pack, unpack
from rtsim.core.net.sockets import keys_of
from rtsim.core.signals import Signal, Signals
from rtsim.pilot import remote, shared
from rtsim.pilot.interpolation import StatePair
from rtsim.pilot.processes import Window
from rtsim.pilot.remote import (
    FULL,
    GONE_NS,
    HELLO,
    MOST_UNDER_WAY,
    MOST_VIEWERS,
    OVER,
    RECORDS,
    SCHEMA,
    SILENT_NS,
    TO_RUN,
    Format,
    Head,
    OtherVersion,
    RemoteExchange,
    WireError,
)
from rtsim.pilot.shared import MOST_BYTES, MOST_ORDERS, STICK, Schema, Shared, SharedError
from rtsim.pilot.viewer.process import watch


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    with closing(Machines(tmp_path)) as both:
        yield both


def publish(machines: Machines, value: float, ns: int = 0) -> None:
    """A state that is due now and 20 ms later, by the run's clock."""
    now = machines.time.there()
    writer = machines.shared.writer("plant/moon")
    writer.integers[:] = (ns, ns + 20 * MS, now, now + 20 * MS, 0, 3, now - 5 * MS)
    writer.floats[:] = value
    writer.publish()
    run = machines.shared.writer("run")
    run.integers[1] = now
    run.publish()


def seen(remote: RemoteExchange) -> StatePair | None:
    record = remote.reader("plant/moon").read()
    return None if record is None else StatePair.of(record)


def stick(machines: Machines) -> tuple[list[int], list[float]]:
    """What the run hears."""
    record = machines.shared.reader("stick").read()
    assert record is not None
    return record.integers.tolist(), record.floats.tolist()


def test_states_come_and_are_due_by_this_machines_clock(machines: Machines) -> None:
    remote, _ = machines.viewer(b"a")
    publish(machines, 4.5)
    due = machines.time.here()
    machines.pass_by(5, there_ns=100_000, back_ns=150_000)
    pair = seen(remote)
    assert pair is not None
    assert pair.last.tolist() == [4.5, 4.5]
    assert remote.complete
    assert remote.offset_ns - AHEAD == -25_000  # half of what the ways differ by
    assert pair.last_wall - due == pytest.approx(0, abs=100_000)
    assert pair.next_wall - pair.last_wall == 20 * MS
    record = remote.reader("plant/moon").read()
    assert record is not None
    assert int(record.integers[6]) - due == pytest.approx(-5 * MS, abs=100_000)


def test_the_quickest_exchange_tells_the_offset_best(machines: Machines) -> None:
    """Ways of another length there and back mislead it by half their difference, at most."""
    remote, _ = machines.viewer(b"a")
    publish(machines, 1.0)
    machines.pass_by(300, there_ns=800_000)
    assert remote.offset_ns - AHEAD == 400_000
    machines.pass_by(250, there_ns=1000)
    assert remote.offset_ns - AHEAD == 500
    assert remote._flow.offset.error_ns == 500
    machines.pass_by(250, there_ns=800_000)
    assert remote.offset_ns - AHEAD == 500


def test_the_stick_is_stamped_by_the_runs_clock(machines: Machines) -> None:
    remote, _ = machines.viewer(b"a")
    publish(machines, 1.0)
    machines.pass_by(5)
    telling = machines.telling(remote)
    now = machines.time.here()
    telling.stick(np.array([0.25, -1.0]), now - 3 * MS, now - 2 * MS, lost=False)
    machines.pass_by(3)
    integers, floats = stick(machines)
    assert floats == [0.25, -1.0]
    assert [n - machines.time.there() for n in integers[:2]] == [-6 * MS, -5 * MS]
    assert telling.order(shared.RATE, 2.0)
    machines.pass_by(3)
    record = machines.shared.reader("orders").read()
    assert record is not None
    assert int(record.integers[1]) == shared.RATE
    assert float(record.floats[0]) == 2.0
    told = int(record.integers[1 + MOST_ORDERS])
    assert machines.time.there() - told == 3 * MS
    assert int(record.integers[2 + MOST_ORDERS]) == 0  # of no order: no time of one


def test_the_second_viewer_watches_until_the_first_one_leaves(machines: Machines) -> None:
    (first, _), (second, _) = machines.viewer(b"a"), machines.viewer(b"b")
    publish(machines, 1.0)
    machines.pass_by(5)
    one, two = machines.telling(first), machines.telling(second)
    for _ in range(3):
        now = machines.time.here()
        one.stick(np.array([0.5, 0.5]), now, now, lost=False)
        machines.pass_by(5)
        two.stick(np.array([-0.5, -0.5]), now, now, lost=False)
        machines.pass_by(5)
    assert stick(machines)[1] == [0.5, 0.5]
    assert (one.flies, two.flies) == (True, False)
    assert not two.order(shared.QUIT)
    assert seen(second) is not None
    one.leave()
    machines.pass_by(5)
    now = machines.time.here()
    assert two.stick(np.array([-0.5, -0.5]), now, now, lost=False)
    machines.pass_by(5)
    assert stick(machines)[1] == [-0.5, -0.5]


def test_who_writes_without_having_the_stick_is_not_passed_on(machines: Machines) -> None:
    """A viewer that does not look who has it: the relay does."""
    (first, _), (rude, _) = machines.viewer(b"a"), machines.viewer(b"b")
    publish(machines, 1.0)
    machines.pass_by(5)
    now = machines.time.here()
    machines.telling(first).stick(np.array([0.5, 0.5]), now, now, lost=False)
    machines.pass_by(5)
    for who in (0, 99):
        writer = rude.writer("stick")
        writer.integers[:] = (now, now, 0, who)
        writer.floats[:] = 0.9
        writer.publish()
        quit_ = rude.writer("orders")
        quit_.integers[:2] = (1, shared.QUIT)
        quit_.publish()
        machines.pass_by(5)
    assert stick(machines)[1] == [0.5, 0.5]
    assert machines.shared.reader("orders").number == 0


def test_a_viewer_that_hears_nothing_is_not_flooded(machines: Machines) -> None:
    remote, line = machines.viewer(b"a")
    publish(machines, 0.0)
    machines.pass_by(10)
    waiting: list[bytes] = []
    line.receive = lambda _: None  # type: ignore[method-assign,assignment]
    for k in range(500):
        publish(machines, float(k))
        machines.pass_by(1)
    waiting = list(line.come)
    assert len([m for m in waiting if len(m) > 200]) <= MOST_UNDER_WAY
    del line.receive
    machines.pass_by(20)
    pair = seen(remote)
    assert pair is not None
    assert pair.last[0] == 499.0  # and none of those between


def test_after_the_line_was_cut_everything_is_told_again(machines: Machines) -> None:
    """Also what has not changed since: a run that stands."""
    remote, line = machines.viewer(b"a")
    publish(machines, 1.0)
    machines.pass_by(10)
    line.cut = True
    publish(machines, 2.0)
    machines.pass_by(50)
    line.cut = False
    machines.pass_by(1500)
    pair = seen(remote)
    assert pair is not None
    assert pair.last[0] == 2.0


def test_what_was_lost_on_the_way_is_missed_though_more_comes(machines: Machines) -> None:
    """A refusal is told once; states go on."""
    remote, line = machines.viewer(b"a")
    publish(machines, 1.0)
    machines.pass_by(10)
    line.cut = True
    answer = machines.shared.writer("answer")
    answer.integers[0] = 1
    answer.publish()
    machines.pass_by(5)
    line.cut = False
    for k in range(1200):
        publish(machines, float(k))
        machines.pass_by(1)
    record = remote.reader("answer").read()
    assert record is not None
    assert record.integers[0] == 1


def test_who_says_nothing_any_more_is_forgotten_and_may_come_back(machines: Machines) -> None:
    remote, line = machines.viewer(b"a")
    publish(machines, 1.0)
    machines.pass_by(10)
    line.cut = True
    machines.time.ns += GONE_NS
    machines.pass_by(5)
    assert not machines.relay._viewers
    assert not remote.over
    machines.time.ns += SILENT_NS
    assert "no message came from tcp://elsewhere:5998 for 10 s" in remote.over
    line.cut = False
    publish(machines, 3.0)
    machines.pass_by(10)
    pair = seen(remote)
    assert pair is not None
    assert pair.last[0] == 3.0
    assert not remote.over


def test_more_viewers_than_are_served_are_not(machines: Machines) -> None:
    remotes = [machines.viewer(b"%d" % k)[0] for k in range(MOST_VIEWERS + 1)]
    publish(machines, 1.0)
    machines.pass_by(10)
    assert [seen(remote) is not None for remote in remotes] == [True] * MOST_VIEWERS + [False]


def nonsense() -> list[bytes]:
    good = Format(MOON)
    other = Format(Schema((("sun", Signals("x")),)))
    stick = bytes(8 * (len(STICK) + 2))
    stick_only = good.records(Head(RECORDS, 1), {"stick": stick})[0]
    head = unpack(stick_only)[:-1]
    return [
        b"", b"\0" * 16, b"RTPV" * 1000, b"\xff" * 300_000, stick_only[:-1], stick_only + b"\0",
        pack([]), pack({}), pack(head), pack([*head, None, None]),
        pack([*head, {"none": stick}]), pack([*head, {5: stick}]),
        pack([*head, {"stick": stick[1:]}]), pack([*head, {"stick": 0.5}]), pack([*head, [stick]]),
        pack([*head[:3], "1", *head[4:], {}]), pack([*head[:4], 2**64 - 1, *head[5:], {}]),
        pack([*head[:4], True, *head[5:], {}]), pack([head[0], "5", *head[2:], {}]),
        good.message(Head(77), {}), good.message(Head(2), b"\xff\xfe"),
        other.records(Head(RECORDS, 1), {"stick": bytes(8 * len(STICK))})[0],
    ]  # fmt: skip


def test_garbage_is_skipped_and_counted_on_both_sides(machines: Machines) -> None:
    remote, line = machines.viewer(b"a")
    publish(machines, 1.0)
    machines.pass_by(10)
    now = machines.time.here()
    telling = machines.telling(remote)
    telling.stick(np.array([0.5, 0.5]), now, now, lost=False)
    machines.pass_by(5)
    before = stick(machines)
    for data in nonsense():
        machines.served.said.append((b"a", data))
        machines.served.said.append((b"stranger", data))
        line.come.append(data)
    machines.pass_by(10)
    assert machines.relay.skipped == 2 * len(nonsense())
    assert remote.skipped == len(nonsense())
    assert stick(machines) == before
    publish(machines, 2.0)
    machines.pass_by(5)
    pair = seen(remote)
    assert pair is not None
    assert pair.last[0] == 2.0


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_a_message_or_an_error_of_ours(data: bytes) -> None:
    for format in (Format(MOON), Format(None)):
        with pytest.raises(WireError):
            format.read(data)


def test_a_schema_is_asked_for_and_waited_for(machines: Machines) -> None:
    publish(machines, 6.0)
    remote = RemoteExchange.over_line(machines.answered(b"a"), clock=machines.time.here)
    assert remote.schema == MOON
    pair = seen(remote)
    assert pair is not None
    assert pair.last[0] == 6.0


def test_nobody_answers_or_somebody_else_does(machines: Machines) -> None:
    line = Line(machines.served, b"a")
    with pytest.raises(SharedError, match=r"nobody answers at tcp://elsewhere:5998.*rtsim|keys"):
        RemoteExchange.over_line(line, patience_s=0.01)
    assert line.cut
    line = Line(machines.served, b"b")
    line.come.append(b"HTTP/1.1 400 Bad Request")
    with pytest.raises(SharedError, match="does not serve a window of rtsim"):
        RemoteExchange.over_line(line, patience_s=5.0)


def test_what_is_too_large_for_a_message_is_refused() -> None:
    wide = Schema((("wide", Signals(Signal("x", shape=(70_000,)))),))
    with pytest.raises(WireError, match="too large for a window on another machine"):
        Format(wide)


def test_many_records_go_in_as_few_messages_as_hold_them() -> None:
    plants = tuple((f"p{k}", Signals(Signal("x", shape=(20_000,)))) for k in range(5))
    format = Format(Schema(plants))
    shapes = dict(Schema(plants).shapes())
    payloads = {f"plant/p{k}": bytes(shapes[f"plant/p{k}"].payload) for k in range(5)}
    messages = format.records(Head(RECORDS, 1), payloads)
    assert len(messages) == 2
    found = {name for data in messages for name in format.read(data).records}
    assert found == payloads.keys()
    assert format.read(Format(None).hello()).head.kind == HELLO


def publish_to(machines: Machines) -> None:
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
    publish_to(machines)
    machines.pass_by(10)
    with pytest.raises(SharedError, match=rf"tcp://elsewhere:5998: {FULL}"):
        RemoteExchange.over_line(
            machines.answered(b"late"), patience_s=5.0, clock=machines.time.here
        )
    assert machines.relay.skipped == 0


def test_and_also_where_it_finds_the_last_place_taken(machines: Machines) -> None:
    remotes = [machines.viewer(b"%d" % k)[0] for k in range(MOST_VIEWERS + 1)]
    publish_to(machines)
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
    publish_to(machines)
    machines.pass_by(10)
    line.receive = lambda _: None  # type: ignore[method-assign,assignment]
    for _ in range(50 * MOST_UNDER_WAY):
        publish_to(machines)
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

"""A viewer at another machine: the same records, latest only, by this machine's clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pilot_line import AHEAD, MOON, MS, Line, Machines

from rtsim.core.net.messagepack import pack, unpack
from rtsim.core.signals import Signal, Signals
from rtsim.pilot import shared
from rtsim.pilot.interpolation import StatePair
from rtsim.pilot.remote import (
    GONE_NS,
    HELLO,
    MOST_UNDER_WAY,
    MOST_VIEWERS,
    RECORDS,
    SILENT_NS,
    Format,
    Head,
    RemoteExchange,
    WireError,
)
from rtsim.pilot.shared import MOST_ORDERS, STICK, Schema, SharedError


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

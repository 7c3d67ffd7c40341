"""The host's state machine: resets, silence, lost and wrong answers, each by its name."""

from __future__ import annotations

import numpy as np
import pytest
from protocol_parts import (
    F16,
    INPUTS,
    MS,
    PARAMETERS,
    FakeBoard,
    exchange,
    failure,
    running,
    stepped,
)  # fmt: skip

from hitl.protocol.framing import encode, encode_message
from hitl.protocol.messages import Code, Error, HelloReply, Pong, Reset, StartReply, StepReply
from hitl.protocol.session import (
    BoardFailure,
    BoardRefused,
    BoardReset,
    Connected,
    OutOfTurn,
    Ponged,
    Session,
    SilentBoard,
    Stepped,
)
from rtsim.core.errors import ControllerError
from rtsim.core.tag import Tag


def test_a_reset_is_named_by_its_notice() -> None:
    session, board = running()
    for k in range(1, 4):
        stepped(session, board, k)
    session.step(Tag(80 * MS), INPUTS, 0)
    half = board.feed(session.outgoing())[:9]  # the reset cuts the reply
    error = failure(session.receive(half + board.reset(0x2222), MS))
    assert isinstance(error, BoardReset)
    assert "has reset after step 3 (boot nonce 00002222, before 0000b007)" in str(error)
    session.connect(2 * MS)
    assert exchange(session, board, 2 * MS) == [Connected(board.who())], "a policy may go on"


def test_a_reset_whose_notice_was_lost() -> None:
    session, board = running()
    stepped(session, board, 1)
    board.reset(0x2222)
    session.step(Tag(40 * MS), INPUTS, 0)
    assert isinstance(failure(exchange(session, board, 0)), BoardReset)


def test_a_reset_that_a_probe_finds() -> None:
    session, board = running()
    session.probe(0)
    assert exchange(session, board, 0) == [Connected(board.who())]
    assert stepped(session, board, 1).counter == 1, "a probe changes nothing"
    board.reset(0x3333)
    session.probe(0)
    assert isinstance(failure(exchange(session, board, 0)), BoardReset)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_counter_that_started_anew(steps: int) -> None:
    session, board = running()
    for k in range(1, steps + 1):
        stepped(session, board, k)
    board.counter = 0
    session.step(Tag(80 * MS), INPUTS, 0)
    error = failure(exchange(session, board, 0))
    assert isinstance(error, BoardReset)
    assert f"its step counter went from {steps} to 1" in str(error)


def test_the_notice_of_the_boot_that_is_known() -> None:
    session, board = running()
    notice = encode_message(Reset(board.nonce, 1), 0)
    assert session.receive(notice, 1) == []
    assert session.counts.stale == 1


def test_a_silent_board() -> None:
    session, board = running()
    stepped(session, board, 1)
    session.step(Tag(40 * MS), INPUTS, 100)
    assert session.poll(100 + 2_000 * MS - 1) == []
    error = failure(session.poll(100 + 2_000 * MS))
    assert isinstance(error, SilentBoard)
    assert "did not answer STEP within 2 s, 1 steps after its start" in str(error)
    assert session.poll(10**12) == [], "said once"


def test_a_lost_reply_a_stale_one_and_a_duplicate() -> None:
    session, board = running()
    stepped(session, board, 1)
    session.step(Tag(40 * MS), INPUTS, 0)
    late = board.feed(session.outgoing())
    session.abandon()
    session.step(Tag(60 * MS), INPUTS, 0)
    assert session.receive(late, 1) == []
    assert session.counts.stale == 1
    reply = board.feed(session.outgoing())
    (event,) = session.receive(reply + reply, 1)
    assert isinstance(event, Stepped)
    assert (event.counter, event.unanswered, event.tag) == (3, 1, Tag(60 * MS))
    assert (session.counts.abandoned, session.counts.stale, session.counts.duplicate) == (1, 1, 1)


def test_a_lost_request() -> None:
    session, board = running()
    session.step(Tag(20 * MS), INPUTS, 0)
    session.outgoing()
    session.abandon()
    event = stepped(session, board, 2)
    assert (event.counter, event.unanswered) == (1, 0)


@pytest.mark.parametrize("lost", [254, 255, 256, 510])
def test_however_many_requests_are_lost_the_next_is_no_repeat_of_the_last(lost: int) -> None:
    session, board = running()
    stepped(session, board, 1)
    for _ in range(lost):
        session.step(Tag(20 * MS), INPUTS, 0)
        session.outgoing()
        session.abandon()
    event = stepped(session, board, 2)
    assert (event.counter, event.unanswered) == (2, 0)


@pytest.mark.parametrize("lost", ["request", "reply"])
def test_a_repeated_step_is_taken_once(lost: str) -> None:
    session, board = running()
    session.step(Tag(20 * MS), INPUTS, 0)
    data = session.outgoing()
    if lost == "reply":
        board.feed(data)
    session.repeat()
    (event,) = exchange(session, board, 0)
    assert isinstance(event, Stepped)
    assert (event.counter, board.steps, session.counts.repeated) == (1, 1, 1)


def test_pings() -> None:
    session, board = running()
    board.micros = 2**32 - 4
    session.ping(77, 5 * MS)
    (event,) = exchange(session, board, 5 * MS)
    assert isinstance(event, Ponged)
    assert event.trip == (5 * MS, 6 * MS, 2**32 - 4)
    session.ping(78, 0)
    assert session.receive(encode_message(Pong(77, 1), session._flight.sequence), 1) == []
    assert (session.counts.stale, session.waiting) == (1, True), "an answer to another ping"


def test_a_ping_and_its_pong_are_as_long_as_each_other() -> None:
    session, board = running()
    session.ping(0x01020304, 0)
    ping = session.outgoing()
    assert len(ping) == len(board.feed(ping))


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (Error(Code.WRONG_LENGTH, 90), BoardRefused, "refused STEP: wrong length (detail 90)"),
        (Error(99, 0), BoardRefused, "refused STEP: code 99"),
        (Error(Code.NOT_STARTED, 0), BoardReset, "it is not started"),
        (StepReply(0, 0, 0, 2, bytes(16)), BoardFailure, "counted 2 steps, but 1 were requested"),
        (StepReply(0, 0, 0, 1, bytes(15)), BoardFailure, "sent 15 bytes of outputs; expected 16"),
        (StepReply(3, 0, 0, 1, b""), ControllerError, "lat_stick = 2.0 of f16_control does not"),
    ],
)
def test_answers_that_are_not_right(
    reply: Error | StepReply, kind: type[Exception], says: str
) -> None:
    session, _ = running()
    session.step(Tag(20 * MS), INPUTS, 0)
    error = failure(session.receive(encode_message(reply, session._flight.sequence), 1))
    assert type(error) is kind
    assert says in str(error)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (StartReply(2, 96), "alpha_trim"),
        (StartReply(0, 95), "acknowledged 95 bytes of parameters, but 96 were sent"),
        (Error(Code.TOO_MANY, 4), "refused START: too many (detail 4)"),
    ],
)
def test_parameters_that_are_not_taken(reply: StartReply | Error, says: str) -> None:
    session, _ = running()
    session.start(PARAMETERS, 0)
    error = failure(session.receive(encode_message(reply, session._flight.sequence), 1))
    assert says in str(error)
    assert not session.started


def test_values_that_no_float32_holds_are_not_sent() -> None:
    session, _ = running()
    inputs = INPUTS.copy()
    inputs[2] = 1e300
    with pytest.raises(ControllerError, match="lat_stick = 1e\\+300 of f16_control does not fit"):
        session.step(Tag(0), inputs, 0)
    with pytest.raises(ControllerError, match="microstep"):
        session.step(Tag(0, 2**16), INPUTS, 0)
    with pytest.raises(ControllerError, match="theta_trim"):
        session.start(np.full(24, 1e300), 0)
    assert session.outgoing() == b""
    assert not session.waiting


def test_one_request_is_in_flight() -> None:
    session, board = Session(F16), FakeBoard(F16)
    with pytest.raises(OutOfTurn, match="in the state 'idle'; call connect first"):
        session.start(PARAMETERS, 0)
    with pytest.raises(OutOfTurn, match="there is no request to repeat"):
        session.repeat()
    session.connect(0)
    exchange(session, board, 0)
    session.ping(1, 0)
    with pytest.raises(OutOfTurn, match="a request is pending; receive its reply"):
        session.ping(2, 0)


def test_noise_in_a_run_is_counted_and_skipped() -> None:
    session, board = running()
    session.step(Tag(20 * MS), INPUTS, 0)
    data = session.outgoing()
    reply = board.feed(data)
    noise = (
        data + b"\x05ab\0\x01\0" + encode(0x7F, 3, b"?") + encode(0xFE, 3, b"?") + encode(3, 3, b"")
    )
    (event,) = session.receive(noise + reply, 1)
    assert isinstance(event, Stepped)
    assert sum(session.counts.garbage.values()) == 2
    assert session.counts.meaningless == 4, "its own echo among them"


def test_a_failed_session_listens_to_nobody() -> None:
    session, board = running()
    failure(session.receive(board.reset(1), 0))
    before = session.counts.stale
    assert session.receive(encode_message(HelloReply(9, 0, 0, 0, 0, 0, 0, 0), 0), 1) == []
    assert session.counts.stale == before + 1
    with pytest.raises(OutOfTurn, match="in the state 'failed'"):
        session.step(Tag(0), INPUTS, 0)

"""The host's state machine against a board in Python: from connecting to a whole run.

The host's state machine: resets, silence, lost and wrong answers, each by its name.

The host's state machine at its limits: the largest tags and parameters, and what is counted.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
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

from hitl.interface import Interface, load_interface
from hitl.protocol.framing import encode, encode_message
from hitl.protocol.messages import (
    VERSION,
    Code,
    Error,
    Hello,
    HelloReply,
    MessageKind,
    Pong,
    Reset,
    Start,
    StartReply,
    StepMessage,
    StepReply,
)
from hitl.protocol.session import (
    CONNECT_PATIENCE_NS,
    HELLO_EVERY_NS,
    BoardFailure,
    BoardRefused,
    BoardReset,
    Connected,
    Failed,
    OldFirmware,
    OutOfTurn,
    Ponged,
    Session,
    SessionState,
    SilentBoard,
    Started,
    Stepped,
    Stopped,
    WrongController,
    of_board,
    payload_needed,
    refused,
)
from rtsim.core.errors import ControllerError
from rtsim.core.tag import NS_PER_S, Tag


def test_a_run() -> None:
    session, board = running()
    for k in range(1, 600):  # sequences wrap twice
        event = stepped(session, board, k)
        assert (event.tag, event.counter, event.unanswered) == (Tag(k * 20 * MS), k, 0)
        assert event.outputs.tolist() == [0, 1, 2, 3]
        assert (event.cycles, event.stack, event.round_trip_ns) == (1000, 200, MS)
    assert board.requests[-1] == StepMessage(599 * 20 * MS, 0, INPUTS.astype("<f4").tobytes())
    session.stop(0)
    assert exchange(session, board, 0) == [Stopped(599)]
    with pytest.raises(OutOfTurn, match="was requested before the start"):
        session.step(Tag(0), INPUTS, 0)
    assert session.counts.garbage == dict.fromkeys(session.counts.garbage, 0)
    assert (session.counts.stale, session.counts.duplicate, session.counts.repeated) == (0, 0, 0)


@pytest.mark.parametrize("room", [payload_needed(F16), 99, 128, 1024])
def test_parameters_go_in_as_many_pieces_as_the_board_needs(room: int) -> None:
    _, board = running(max_payload=room)
    starts = [m for m in board.requests if isinstance(m, Start)]
    assert b"".join(m.values for m in starts) == PARAMETERS.astype("<f4").tobytes()
    assert len(starts) == -(-96 // (room - 4))
    assert all(len(m.values) + 4 <= room and m.total == 96 for m in starts)


def test_boot_bytes_are_skipped_and_hello_is_repeated() -> None:
    """Opening the port has reset the board: silence, then half a frame of the run before."""
    session, board = Session(F16), FakeBoard(F16)
    session.connect(0)
    lost = session.outgoing()
    assert lost.startswith(b"\0")
    assert session.receive(b"\x14\x10boot\0\xff\xff", 1) == []
    assert session.poll(HELLO_EVERY_NS - 1) == [] == list(session.outgoing())
    assert session.poll(HELLO_EVERY_NS) == []
    assert session.outgoing() == b"\0" + lost[1:]
    assert session.receive(board.reset(0x1234), 2 * MS) == []
    assert exchange(session, board, 2 * MS) == [Connected(board.who())]
    assert session.counts.booting == 2
    assert sum(session.counts.garbage.values()) == 0


def test_a_board_that_answers_all_hellos_at_once() -> None:
    session, board = Session(F16), FakeBoard(F16)
    session.connect(0)
    for k in range(4):
        session.poll(k * HELLO_EVERY_NS)
    assert exchange(session, board, 0) == [Connected(board.who())]
    assert session.counts.duplicate == 3


def test_nobody_is_there() -> None:
    session = Session(F16)
    session.connect(7)
    hellos = 0
    for now in range(7, 7 + CONNECT_PATIENCE_NS, 10 * MS):
        assert session.poll(now) == []
        hellos += bool(session.outgoing())
    assert hellos == CONNECT_PATIENCE_NS // HELLO_EVERY_NS
    error = failure(session.poll(7 + CONNECT_PATIENCE_NS + 3_610_000))
    assert isinstance(error, SilentBoard)
    assert "within 5 s, no byte arrived; check the port" in str(error)


def test_a_wrong_baud_rate_is_guessed_from_garbage() -> None:
    session = Session(F16)
    session.connect(0)
    session.receive(b"\xf8\x00\x80\x00", 1)
    error = failure(session.poll(CONNECT_PATIENCE_NS))
    assert "2 malformed and 0 valid frames arrived" in str(error)
    assert "baud rate" in str(error)


def test_bytes_without_any_delimiter_are_garbage_too() -> None:
    session = Session(F16)
    session.connect(0)
    session.receive(b"\xf8\x80", 1)
    error = failure(session.poll(CONNECT_PATIENCE_NS))
    assert "1 malformed and 0 valid frames arrived; check that the baud rate" in str(error)


@pytest.mark.parametrize(
    ("hello", "kind", "says"),
    [
        ({"version": 2}, OldFirmware, "has version 2 of the protocol, rtsim has version 1"),
        ({"schema": 5}, WrongController, "other signals than f16_control.toml"),
        ({"name_hash": 5}, WrongController, "another controller than f16_control"),
        ({"max_payload": 89}, BoardFailure, "takes 89 bytes of payload, but f16_control needs 90"),
    ],
)
def test_who_is_not_right(hello: dict[str, int], kind: type[BoardFailure], says: str) -> None:
    session, board = Session(F16), FakeBoard(F16, **hello)
    session.connect(0)
    error = failure(exchange(session, board, 0))
    assert type(error) is kind
    assert says in str(error)
    assert session.state is SessionState.FAILED
    assert board.requests == [Hello(VERSION)]


def test_a_hello_of_another_version_may_have_another_length() -> None:
    session = Session(F16)
    session.connect(0)
    error = failure(session.receive(encode(MessageKind.HELLO_REPLY, 1, b"\x09and more"), 1))
    assert isinstance(error, OldFirmware)
    assert "version 9" in str(error)


def test_another_build() -> None:
    session = Session(F16, build=0xABCD)
    session.connect(0)
    error = failure(exchange(session, FakeBoard(F16), 0))
    assert isinstance(error, OldFirmware)
    assert "runs build 00000001 of f16_control, expected 0000abcd" in str(error)


def test_float64_and_a_double_of_four_bytes() -> None:
    wide = load_interface(F16.path)
    session = Session(wide)
    session.connect(0)
    error = failure(exchange(session, FakeBoard(wide, max_payload=512), 0))
    assert isinstance(error, WrongController)
    assert "float64, but a double of the board has only 4 bytes" in str(error)


byte = st.integers(0, 255)
kinds = st.sampled_from(list(MessageKind)) | byte
anything = st.one_of(
    st.binary(max_size=60), st.builds(encode, kinds, st.integers(0, 4), st.binary(max_size=40))
)


@given(st.lists(anything, max_size=8), st.booleans())
def test_whatever_arrives_a_session_never_raises(pieces: list[bytes], started: bool) -> None:
    """And what it cannot believe ends it with an error that is named, once."""
    if started:
        session, _ = running()
        session.step(Tag(0), np.zeros(20), 0)
    else:
        session = Session(F16)
        session.connect(0)
    events = [event for piece in pieces for event in session.receive(piece, 1)]
    failed = [event for event in events if isinstance(event, Failed)]
    assert len(failed) <= 1
    assert all(isinstance(event.error, ControllerError) for event in failed)


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_noise_before_an_answer_does_not_keep_it_out(noise: list[bytes]) -> None:
    """Neither end is kept by half a frame of before."""
    session, board = Session(F16), FakeBoard(F16)
    for piece in noise:
        board.feed(piece)
    session.connect(0)
    session.outgoing()
    session.receive(b"".join(noise), 1)
    session.connect(1)
    exchange(session, board, 1)
    assert session.board == board.who()


def test_a_session_without_an_interface_meets_any_board_and_pings_it() -> None:
    board = FakeBoard(F16, name_hash=0xBAD, schema=0xBAD)
    session = Session(None)
    session.connect(0)
    assert exchange(session, board, 0) == [Connected(board.who())]
    session.ping(5, 0)
    (ponged,) = exchange(session, board, 0)
    assert isinstance(ponged, Ponged)
    with pytest.raises(OutOfTurn, match="has no interface; to start a controller"):
        session.start(PARAMETERS, 0)
    with pytest.raises(OutOfTurn, match="call start first"):
        session.step(Tag(0), INPUTS, 0)


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


def test_only_a_single_request_is_in_flight() -> None:
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


LARGE = """\
name = "large"
real = "float32"
period = "1/50"
sources = ["large.c"]
headers = ["large.h"]
[code]
step = "step()"
[inputs]
u = {{ c = "u" }}
[outputs]
y = {{ c = "y" }}
[parameters]
table = {{ c = "table", type = "uint8", shape = [{bytes}], initial = 0 }}
"""


def large(folder: Path, size: int) -> Interface:
    """One whose parameters are so many bytes."""
    (folder / "large.toml").write_text(LARGE.format(bytes=size))
    (folder / "large.c").touch()
    (folder / "large.h").touch()
    return load_interface(folder / "large.toml")


@pytest.mark.parametrize("tag", [Tag(2**64 - 1, 0), Tag(0, 2**16 - 1), Tag(0, 0)])
def test_the_largest_tag_is_sent(tag: Tag) -> None:
    session, board = running()
    session.step(tag, INPUTS, 0)
    (event,) = exchange(session, board, 0)
    assert isinstance(event, Stepped)
    assert event.tag == tag
    sent = board.requests[-1]
    assert isinstance(sent, StepMessage)
    assert sent[:2] == tag


@pytest.mark.parametrize("tag", [Tag(2**64, 0), Tag(0, 2**16), Tag(-1, 0), Tag(0, -1)])
def test_a_tag_that_does_not_fit_is_not_sent(tag: Tag) -> None:
    session, _ = running()
    with pytest.raises(ControllerError, match="does not fit a STEP message"):
        session.step(tag, INPUTS, 0)
    assert not session.outgoing()


def test_parameters_of_up_to_65535_bytes_are_sent(tmp_path: Path) -> None:
    fits, beyond = large(tmp_path, 2**16 - 1), large(tmp_path, 2**16)
    session, board = Session(fits), FakeBoard(fits, max_payload=1024)
    session.connect(0)
    exchange(session, board, 0)
    session.start(np.zeros(2**16 - 1), 0)
    (started,) = exchange(session, board, 0)
    assert isinstance(started, Started)
    session, board = Session(beyond), FakeBoard(beyond, max_payload=1024)
    session.connect(0)
    exchange(session, board, 0)
    told = "the parameters have 65536 bytes; at most 65535 bytes can be sent to a board"
    with pytest.raises(ControllerError, match=told):
        session.start(np.zeros(2**16), 0)


def test_how_long_a_board_was_silent_is_counted_from_its_request() -> None:
    session, board = running()
    session.step(Tag(20 * MS), INPUTS, 100 * NS_PER_S)
    session.outgoing()
    error = str(failure(session.poll(103 * NS_PER_S)))
    assert "did not answer STEP within 3 s, 0 steps after its start" in error
    session.connect(200 * NS_PER_S)
    error = str(failure(session.poll(206 * NS_PER_S)))
    assert "no board answered within 6 s" in error
    del board


def test_arrivals_are_counted_by_the_piece() -> None:
    session, board = running()
    session.count_anew()
    for k in range(1, 4):
        stepped(session, board, k)
    assert session.counts.frames == 3
    session.receive(encode(0x7F, 1, b"?") + b"\x05ab\0", 0)
    assert (session.counts.frames, session.counts.meaningless) == (4, 1)
    assert sum(session.counts.garbage.values()) == 1
    session.step(Tag(80 * MS), INPUTS, 0)
    failure(session.poll(10 * NS_PER_S))
    session.receive(encode(0x83, 1, b""), 0)
    session.receive(encode(0x83, 1, b""), 0)
    assert (session.counts.frames, session.counts.stale) == (6, 2)
    session.count_anew()
    assert (session.counts.frames, session.counts.stale) == (0, 0)


def test_how_long_things_take_is_told_from_when_they_were_asked_for() -> None:
    session, board = Session(F16), FakeBoard(F16)
    session.connect(0)
    assert exchange(session, board, 0) == [Connected(board.who())]
    session.start(PARAMETERS, 7 * MS)
    assert exchange(session, board, 9 * MS) == [Started(3 * MS)], "the answer is there at 10 ms"
    session.step(Tag(0), INPUTS, 20 * MS)
    (event,) = exchange(session, board, 24 * MS)
    assert isinstance(event, Stepped)
    assert event.round_trip_ns == 5 * MS
    session.ping(1, 30 * MS)
    (ponged,) = exchange(session, board, 30 * MS)
    assert isinstance(ponged, Ponged)
    assert ponged.trip[:2] == (30 * MS, 31 * MS)


def test_a_second_start_counts_its_steps_from_the_first() -> None:
    session, board = running()
    for k in range(3):
        stepped(session, board, k)
    session.stop(0)
    assert exchange(session, board, 0) == [Stopped(3)]
    assert not session.started
    session.start(PARAMETERS, 0)
    exchange(session, board, 0)
    assert (stepped(session, board, 0).counter, stepped(session, board, 1).unanswered) == (1, 0)
    session.step(Tag(60 * MS), INPUTS, 0)
    untrue = StepReply(0, 0, 0, 4, bytes(16))
    error = failure(session.receive(encode_message(untrue, session._flight.sequence), 1))
    assert "the board counted 4 steps, but 3 were requested; " in str(error)


def test_a_counter_that_stands_still_is_a_reset() -> None:
    session, board = running()
    stepped(session, board, 1)
    session.step(Tag(40 * MS), INPUTS, 0)
    same = StepReply(0, 0, 0, 1, bytes(16))
    error = failure(session.receive(encode_message(same, session._flight.sequence), 1))
    assert isinstance(error, BoardReset)
    assert "has reset after step 1: its step counter went from 1 to 1" in str(error)


def test_unanswered_steps_are_those_that_the_board_counts_more() -> None:
    session, board = running()
    stepped(session, board, 1)
    for k in (2, 3):
        session.step(Tag(k * MS), INPUTS, 0)
        board.feed(session.outgoing())
        session.abandon()
    assert stepped(session, board, 4).unanswered == 2


def test_a_board_that_is_not_started_has_forgotten_only_where_it_was() -> None:
    session, board = running()
    session.stop(0)
    exchange(session, board, 0)
    session.ping(1, 0)
    reply = Error(Code.NOT_STARTED, 3)
    error = failure(session.receive(encode_message(reply, session._flight.sequence), 1))
    assert type(error) is not BoardReset
    assert "refused PING: not started (detail 3)" in str(error)


def test_parameters_of_no_byte_are_one_piece(tmp_path: Path) -> None:
    text = LARGE[: LARGE.index("[parameters]")].format()
    (tmp_path / "large.toml").write_text(text)
    for name in ("large.c", "large.h"):
        (tmp_path / name).touch()
    none = load_interface(tmp_path / "large.toml")
    session, board = Session(none), FakeBoard(none)
    session.connect(0)
    exchange(session, board, 0)
    session.start(np.zeros(0), 0)
    sequence = session._flight.sequence
    events = session.receive(encode_message(StartReply(0, 0), sequence), MS)
    assert events == [Started(MS)]


@pytest.mark.parametrize("state", list(SessionState))
def test_a_request_is_refused_in_every_state_but_ready(state: SessionState) -> None:
    session, _ = running()
    session.state = state
    if state is SessionState.READY:
        session.probe(0)
        assert session.waiting
        return
    told = f"a request was made in the state '{state.value}'; call connect first"
    with pytest.raises(OutOfTurn, match=told):
        session.probe(0)


# -- who a board is


def board(interface: Interface, **said: int) -> HelloReply:
    return FakeBoard(interface, **said).who()


def test_a_board_needs_room_for_the_longest_frame() -> None:
    needed = payload_needed(F16)
    assert needed == 90
    assert of_board(board(F16, max_payload=needed), F16, None) is None
    error = of_board(board(F16, max_payload=needed - 1), F16, None)
    assert isinstance(error, BoardFailure)
    assert "-DRTSIM_MAX_PAYLOAD=90" in str(error)


def test_the_longest_frame_may_be_the_boards_hello(tmp_path: Path) -> None:
    small = large(tmp_path, 1)
    hello = payload_needed(small)
    assert hello == len(encode_message(board(small), 0)) - 6, "frame and delimiter around it"
    assert of_board(board(small, max_payload=hello), small, None) is None


def test_a_build_counts_only_where_one_is_asked_for() -> None:
    assert of_board(board(F16, build=5), F16, None) is None
    assert of_board(board(F16, build=5), F16, 5) is None
    assert of_board(board(F16, build=0), F16, 0) is None
    assert isinstance(of_board(board(F16, build=5), F16, 0), OldFirmware)


def test_a_double_of_eight_bytes_is_a_float64() -> None:
    wide = load_interface(F16.path)
    eight = board(wide, double_bytes=8, max_payload=512)
    assert of_board(eight, wide, None) is None
    four = of_board(board(wide, double_bytes=4, max_payload=512), wide, None)
    assert isinstance(four, WrongController)
    assert of_board(board(F16, double_bytes=4), F16, None) is None, "nobody needs one"


def test_a_stack_that_met_the_data_is_told_with_its_size() -> None:
    told = str(refused(Error(Code.STACK_OVERFLOW, 77), "STEP"))
    assert "refused STEP: its stack of 77 bytes overflowed into the static data; " in told
    assert "(detail 77)" in str(refused(Error(Code.WRONG_LENGTH, 77), "STEP"))

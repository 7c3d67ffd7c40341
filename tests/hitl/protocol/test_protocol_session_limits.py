"""The host's state machine at its limits: the largest tags and parameters, and what is counted."""

from __future__ import annotations

from pathlib import Path

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

from hitl.interface import Interface, load_interface
from hitl.protocol.framing import encode, encode_message
from hitl.protocol.messages import Code, Error, HelloReply, StartReply, StepMessage, StepReply
from hitl.protocol.session import (
    BoardFailure,
    BoardReset,
    Connected,
    OldFirmware,
    OutOfTurn,
    Ponged,
    Session,
    SessionState,
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


def test_what_arrives_is_counted_by_the_piece() -> None:
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

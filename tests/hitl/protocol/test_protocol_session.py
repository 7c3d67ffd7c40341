"""The host's state machine against a board in Python: from connecting to a whole run."""

from __future__ import annotations

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

from hitl.interface import load_interface
from hitl.protocol.framing import encode
from hitl.protocol.messages import VERSION, Hello, MessageKind, Start, StepMessage
from hitl.protocol.session import (
    CONNECT_PATIENCE_NS,
    HELLO_EVERY_NS,
    BoardFailure,
    Connected,
    Failed,
    OldFirmware,
    OutOfTurn,
    Ponged,
    Session,
    SessionState,
    SilentBoard,
    Stopped,
    WrongController,
    payload_needed,
)
from rtsim.core.errors import ControllerError
from rtsim.core.tag import Tag


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

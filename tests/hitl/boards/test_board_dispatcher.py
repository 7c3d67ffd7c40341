"""The C dispatcher, compiled for the host, beside FakeBoard: the same conversation, the same bytes.

``-DRTSIM_MAX_PAYLOAD`` is small enough here that the parameters go in several pieces.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import c_parts
import pytest
from c_parts import sanitized
from protocol_parts import (
    F16,
    FIRMWARE,
    INPUTS,
    MS,
    PARAMETERS,
    WARNINGS,
    FakeBoard,
    exchange,
    failure,
    noise,
    stepped,
)  # fmt: skip

from hitl.protocol.codec import name_hash, wire_schema
from hitl.protocol.framing import encode, encode_message
from hitl.protocol.messages import Code, Error, Hello, Ping, Start, StepMessage, Stop
from hitl.protocol.session import (
    BoardRefused,
    BoardReset,
    Connected,
    Ponged,
    Session,
    Started,
    Stopped,
)
from rtsim.core.tag import Tag

PAYLOAD = 90
BOARD = FIRMWARE


class Both(FakeBoard):
    """A FakeBoard, and the C beside it, which has to say the same."""

    def __init__(self, program: Path) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([program], stdin=pipe, stdout=pipe, stderr=pipe)
        super().__init__(F16, max_payload=PAYLOAD)
        self.parser = type(self.parser)(PAYLOAD)
        self.reset(self.nonce)

    def _boot(self) -> None:
        super()._boot()
        self.parser = type(self.parser)(PAYLOAD)

    def asked(self, head: int, body: bytes) -> bytes:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(head.to_bytes(2, "little") + body)
        self.process.stdin.flush()
        size = self.process.stdout.read(4)
        assert len(size) == 4, self.ended()
        return self.process.stdout.read(int.from_bytes(size, "little"))

    def ended(self) -> str:
        return self.process.communicate(timeout=30)[1].decode()[-2000:]

    def reset(self, nonce: int) -> bytes:
        said = self.asked(0xFFFF, nonce.to_bytes(4, "little"))
        assert said == super().reset(nonce)
        return said

    def feed(self, data: bytes) -> bytes:
        said = self.asked(len(data), data)
        assert said.hex() == super().feed(data).hex()
        return said


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dispatcher") / "board"
    sizes = FakeBoard(F16)
    defines = {
        "RTSIM_MAX_PAYLOAD": PAYLOAD,
        "SCHEMA": f"{wire_schema(F16)}u",
        "NAME_HASH": f"{name_hash(F16.name)}u",
        "INPUTS": sizes.inputs.bytes,
        "OUTPUTS": sizes.outputs.bytes,
        "PARAMETERS": sizes.parameters.bytes,
    }
    flags = [f"-D{name}={value}" for name, value in defines.items()]
    sources = [
        BOARD / "board.c",
        FIRMWARE / "protocol.c",
        Path(__file__).parents[2] / "helpers" / "board_driver.c",
    ]
    flags += ["-std=c99", *WARNINGS, *sanitized(), f"-I{FIRMWARE}", f"-I{BOARD}"]
    c_parts.compiled(*flags, *sources, "-o", out, folder=out.parent)
    return out


@pytest.fixture
def board(program: Path) -> Iterator[Both]:
    both = Both(program)
    both.hello["double_bytes"] = 8
    yield both
    assert "runtime error" not in (said := both.ended()), said
    assert both.process.returncode == 0, said


def opened(board: Both) -> Session:
    session = Session(F16)
    session.connect(0)
    assert exchange(session, board, 0) == [Connected(board.who())]
    session.start(PARAMETERS, 0)
    (started,) = exchange(session, board, 0)
    assert isinstance(started, Started)
    return session


def test_a_conversation(board: Both) -> None:
    session = opened(board)
    pieces = [r for r in board.requests if isinstance(r, Start)]
    assert len(pieces) > 1
    assert b"".join(p.values for p in pieces) == board.parameters.pack(PARAMETERS)[0]
    for k in range(300):
        reply = stepped(session, board, k)
        assert (reply.counter, reply.cycles, reply.stack) == (k + 1, 1000, 200)
        assert reply.outputs.tolist() == INPUTS[:4].tolist()
    session.ping(0xCAFE, 0)
    (ponged,) = exchange(session, board, 0)
    assert isinstance(ponged, Ponged)
    session.stop(0)
    assert exchange(session, board, 0) == [Stopped(300)]
    session.start(PARAMETERS, 0)
    exchange(session, board, 0)
    assert stepped(session, board, 0).counter == 1


def test_a_request_that_comes_again_is_answered_again_and_done_once(board: Both) -> None:
    session = opened(board)
    session.step(Tag(0), INPUTS, 0)
    first = board.feed(session.outgoing())
    session.repeat()
    assert board.feed(session.outgoing()) == first
    stranger = encode_message(
        StepMessage(0, 0, b"short"), 77
    )  # its ERROR must not cost the last reply
    assert b"" != board.feed(stranger) != first
    session.repeat()
    assert board.feed(session.outgoing()) == first
    assert board.steps == 1


def test_a_reset_in_a_run_is_named(board: Both) -> None:
    session = opened(board)
    stepped(session, board, 0)
    session.step(Tag(20 * MS), INPUTS, 0)
    session.outgoing()
    error = failure(session.receive(board.reset(0xD1E), 0))
    assert isinstance(error, BoardReset)
    assert "after step 1" in str(error)


def test_a_stack_that_met_the_data_is_named(board: Both) -> None:
    session = opened(board)
    stepped(session, board, 0)
    assert board.asked(0xFFFE, (1000).to_bytes(2, "little")) == b""
    session.step(Tag(20 * MS), INPUTS, 0)
    said = board.asked(len(data := session.outgoing()), data)
    assert said == encode_message(Error(Code.STACK_OVERFLOW, 1000), data[2])
    error = failure(session.receive(said, 0))
    assert isinstance(error, BoardRefused)
    assert "its stack of 1000 bytes overflowed into the static data" in str(error)
    board.asked(0xFFFE, (200).to_bytes(2, "little"))


@pytest.mark.parametrize(
    "messages",
    [
        [Start(8, 4, b"abcd")],
        [Start(0, 7, b"abcd")],
        [Start(0, 4 * PARAMETERS.size, b"\1" * 70), Start(70, 4 * PARAMETERS.size, b"\1" * 80)],
        [Start(0, 4 * PARAMETERS.size, b"\1" * 70), Start(70, 4 * PARAMETERS.size, b"\1" * 80)] * 2,
        [Start(0, 4 * PARAMETERS.size, b"\1" * 70), Start(60, 4 * PARAMETERS.size, b"\1" * 10)],
        [StepMessage(0, 0, bytes(80)), Ping(1, 2), Stop(), Hello(1), Hello(9)],
    ],
    ids=["ahead", "other total", "too long", "twice", "behind", "not started"],
)
def test_out_of_turn(
    board: Both, messages: list[Start | StepMessage | Ping | Stop | Hello]
) -> None:
    for k, message in enumerate(messages):
        assert board.feed(encode_message(message, k)) != b""


def test_hello_of_a_later_version_and_strangers(board: Both) -> None:
    for kind, body in [(1, b"\x02later"), (1, b""), (0x81, bytes(28)), (0x77, b""), (0, b"")]:
        assert board.feed(encode(kind, 3, body)) != b""


def requests(chance: random.Random) -> bytes:
    """Anything that is a frame: requests, well and badly formed, few sequences, often again."""
    total, sequence = 4 * PARAMETERS.size, chance.randrange(3)
    if chance.random() < 0.3:
        pieces = [Start(0, total, b"\1" * 70), Start(70, total, b"\1" * (total - 70))]
        return b"".join(encode_message(piece, chance.randrange(256)) for piece in pieces)
    offset, piece = chance.choice((0, 0, 70, 80, total)), chance.choice((70, total - 70, 0, 5))
    small = bytes(chance.choices(range(0x70), k=80))  # no NaN, whose bits numpy may change
    start = Start(offset, chance.choice((total, total, 9)), bytes(min(piece, PAYLOAD - 4)))
    step = StepMessage(0, 0, small[: chance.choice((80, 80, 80, 0, 79))])
    choices = (Hello(1), start, step, step, step, step, Ping(chance.randrange(9), 0), Stop())
    return encode_message(chance.choice(choices), sequence)


@pytest.mark.parametrize("seed", range(4))
def test_under_random_and_damaged_bytes(board: Both, seed: int) -> None:
    chance = random.Random(seed)
    bits, taken = list(noise(seed, 2000)), 0
    for k in range(2000):
        data = bytearray(b"".join(requests(chance) for _ in range(chance.randrange(3))))
        if data and chance.random() < 0.2:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        board.feed(bytes(data) + bits[k] if chance.random() < 0.3 else bytes(data))
        if chance.random() < 0.01:
            taken += board.steps
            board.reset(chance.randrange(1 << 32))
    assert taken > 100

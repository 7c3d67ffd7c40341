"""What tests of the protocol share: a board in Python, the C side, golden frames, an interface."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import c_parts
import numpy as np

from hitl.interface import Interface, load_interface
from hitl.protocol.codec import Codec, name_hash, wire_schema
from hitl.protocol.framing import (
    GarbageBytes,
    Parser,
    ProtocolFrame,
    decode_message,
    encode,
    encode_message,
)
from hitl.protocol.messages import (
    VERSION,
    Code,
    Error,
    Hello,
    HelloReply,
    Message,
    MessageKind,
    Ping,
    Pong,
    Reset,
    Start,
    StartReply,
    StepMessage,
    StepReply,
    Stop,
    StopReply,
)  # fmt: skip
from hitl.protocol.session import BoardFailure, Connected, Event, Failed, Session, Started, Stepped
from rtsim.core.errors import ControllerError
from rtsim.core.tag import Tag

ROOT = Path(__file__).resolve().parents[2]
FIRMWARE = ROOT / "firmware" / "src" / "rtsim"
DRIVER = Path(__file__).parent / "protocol_driver.c"
GOLDEN = json.loads((Path(__file__).parent / "golden_frames.json").read_text(encoding="utf-8"))
WARNINGS = (
    "-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wdouble-promotion", "-Werror",
)  # fmt: skip
GOOD = encode(0x84, 7, b"good")
"""What a parser has to find after whatever came before."""


def f16() -> Interface:
    return load_interface(f"{ROOT / 'firmware' / 'core' / 'f16_control.toml'}:single")


def compiled(folder: Path, payload: int, *flags: str) -> Path:
    """The C side for frames of ``payload`` bytes, as a program."""
    program = folder / f"driver{payload}"
    c_parts.compiled(
        "-std=c99", *WARNINGS, *flags, f"-DRTSIM_MAX_PAYLOAD={payload}", f"-I{FIRMWARE}",
        FIRMWARE / "protocol.c", DRIVER, "-o", program, folder=folder,
    )  # fmt: skip
    return program


def records(strings: Iterable[bytes]) -> bytes:
    return b"".join(len(s).to_bytes(2, "little") + s for s in strings)


def run(program: Path, mode: str, strings: Iterable[bytes]) -> bytes:
    done = subprocess.run([program, mode], input=records(strings), capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout


def told(parser: Parser, strings: Iterable[bytes]) -> bytes:
    """What the driver writes, from the parser in Python."""
    out = bytearray()
    for string in strings:
        for event in parser.feed(string):
            if isinstance(event, GarbageBytes):
                out.append(event.why)
            else:
                out += bytes((255, event.kind, event.sequence))
                out += len(event.payload).to_bytes(2, "little") + event.payload
        out.append(0)
    return bytes(out)


def noise(seed: int, count: int) -> Iterator[bytes]:
    """Random strings: bytes, short codes and zeros, frames whole, cut, damaged and run together."""
    chance = random.Random(seed)
    frames = [bytes.fromhex(row["frame"]) for row in GOLDEN]
    for _ in range(count):
        choice = chance.randrange(6)
        if choice == 0:
            yield chance.randbytes(chance.randrange(40))
        elif choice == 1:
            yield bytes(chance.choices((0, 1, 2, 3, 255), k=chance.randrange(12)))
        elif choice == 2:
            yield encode(chance.randrange(256), choice, chance.randbytes(chance.randrange(30)))
        else:
            frame = bytearray(chance.choice(frames))
            if choice == 3:
                frame[chance.randrange(len(frame))] ^= 1 << chance.randrange(8)
            elif choice == 4:
                del frame[chance.randrange(len(frame)) :]
            yield bytes(frame)


class FakeBoard:
    """A board as docs/protocol.md describes it; its controller returns its first inputs."""

    def __init__(self, interface: Interface, nonce: int = 0xB007, **hello: int) -> None:
        self.interface, self.nonce, self.hello = interface, nonce, hello
        self.inputs = Codec(interface.input_fields)
        self.outputs = Codec(interface.output_fields)
        self.parameters = Codec(interface.parameter_fields)
        self.micros = 0
        self.status = 0
        self.requests: list[Message] = []
        self._boot()

    def _boot(self) -> None:
        self.parser = Parser()
        self.received, self.started, self.counter, self.steps = b"", False, 0, 0
        self.last: tuple[int, int] = (-1, -1)
        self.reply = b""

    def reset(self, nonce: int) -> bytes:
        """Start anew; the notice."""
        self.nonce = nonce
        self._boot()
        return b"\0" + encode_message(Reset(nonce, 2), 0)

    def feed(self, data: bytes) -> bytes:
        """Answers to these bytes."""
        return b"".join(
            self._answer(e) for e in self.parser.feed(data) if isinstance(e, ProtocolFrame)
        )

    def _answer(self, frame: ProtocolFrame) -> bytes:
        message = decode_message(frame)
        if frame.kind == MessageKind.HELLO and frame.payload:  # of any version
            message = Hello(frame.payload[0])
        fault = 0
        if frame.kind not in (
            MessageKind.HELLO,
            MessageKind.START,
            MessageKind.STEP,
            MessageKind.PING,
            MessageKind.STOP,
        ):
            fault = Code.UNKNOWN_KIND
        elif isinstance(message, StepMessage) and len(message.inputs) != self.inputs.bytes:
            fault = Code.WRONG_LENGTH
        if fault or message is None:
            return encode_message(Error(fault or Code.WRONG_LENGTH, frame.kind), frame.sequence)
        if (frame.kind, frame.sequence) != self.last or isinstance(message, Hello):
            self.requests.append(message)
            self.reply = encode_message(self._said(message), frame.sequence)
            self.last = (frame.kind, frame.sequence)
        return self.reply

    def _said(self, message: Message) -> Message:
        match message:
            case Hello():
                return self.who()
            case Start(offset, total, values):
                return self._begun(offset, total, values)
            case StepMessage() if not self.started:
                return Error(Code.NOT_STARTED, 0)
            case StepMessage(inputs=packed):
                self.counter += 1
                self.steps += 1
                inputs, _ = self.inputs.unpack(packed)
                outputs, _ = self.outputs.pack(inputs[: self.outputs.size])
                return StepReply(self.status, 1000, 200, self.counter, outputs)
            case Ping(nonce):
                return Pong(nonce, self.micros)
            case Stop():
                self.received, self.started = b"", False
                return StopReply(self.counter)
            case _:
                raise AssertionError(message)

    def who(self) -> HelloReply:
        said = {
            "version": VERSION, "double_bytes": 4, "max_payload": 128, "build": 1,
            "schema": wire_schema(self.interface), "clock_hz": 16_000_000,
            "boot_nonce": self.nonce, "name_hash": name_hash(self.interface.name),
        }  # fmt: skip
        return HelloReply(**(said | self.hello))

    def _begun(self, offset: int, total: int, values: bytes) -> Message:
        if offset == 0:
            self.received, self.started = b"", False
        if offset != len(self.received):
            return Error(Code.OUT_OF_ORDER, len(self.received))
        if total != self.parameters.bytes or len(values) > total - offset:
            return Error(Code.TOO_MANY, self.parameters.bytes)
        self.received += values
        if len(self.received) == total:
            self.started, self.counter = True, 0
        return StartReply(0, len(self.received))


MS = 1_000_000
F16 = f16()
PARAMETERS = F16.parameters.initial({})
INPUTS = np.arange(20.0)


def exchange(session: Session, board: FakeBoard, now_ns: int) -> list[Event]:
    """Bytes to and fro until nobody has more to say; an answer takes 1 ms."""
    events: list[Event] = []
    while data := session.outgoing():
        now_ns += MS
        events += session.receive(board.feed(data), now_ns)
    return events


def running(**hello: int) -> tuple[Session, FakeBoard]:
    """A session whose controller is started."""
    session, board = Session(F16), FakeBoard(F16, **hello)
    session.connect(0)
    assert exchange(session, board, 0) == [Connected(board.who())]
    session.start(PARAMETERS, 0)
    (started,) = exchange(session, board, 0)
    assert isinstance(started, Started)
    return session, board


def failure(events: list[Event]) -> BoardFailure | ControllerError:
    (event,) = events
    assert isinstance(event, Failed)
    return event.error


def stepped(session: Session, board: FakeBoard, k: int) -> Stepped:
    session.step(Tag(k * 20 * MS), INPUTS, 0)
    (event,) = exchange(session, board, 0)
    assert isinstance(event, Stepped)
    return event

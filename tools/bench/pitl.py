"""PITL: what a line and an emulated board cost, and how fast the emulator is.

Exchanges are counted in the board's own cycles, so those figures are the same on every machine.
The emulator's speed, the pseudo-terminal and Python's share of an exchange are those of this one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from hitl.boards.contract import BoardError, BoardLink
from hitl.boards.known import DEFAULT_URL
from hitl.boards.paced import PacedBoard
from hitl.boards.serial_port import SerialLink
from hitl.controllers.board import BoardController
from hitl.firmware import firmware
from hitl.interface import Interface, load_interface
from hitl.protocol.codec import Codec, name_hash, wire_schema
from hitl.protocol.framing import Parser, ProtocolFrame, decode_message, encode_message
from hitl.protocol.line import Budget
from hitl.protocol.messages import (
    VERSION,
    HelloReply,
    Message,
    StartReply,
    StepReply,
)
from hitl.protocol.session import Connected, Event, Session, Started, Stepped
from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from tools.bench.results import Result, Row
from tools.bench.turns import spread

LAW = f"{Path(__file__).resolve().parents[2] / 'firmware' / 'core' / 'f16_control.toml'}:single"
OVER_WIRE, SPEED, PYTHON_NS, PORT_NS = 1.3, 2.5, 60_000.0, 1_000_000.0
BAUDS = (115_200, 500_000)
_C = "float out; float in[5]; unsigned char flag, level; void go(void) { out = in[0] + in[4]; }\n"
_TOML = """name = "exchange"
period = "1/50"
sources = ["exchange.c"]
headers = ["exchange.h"]
[code]
step = "go()"
[inputs]
in = { c = "in", type = "float32", shape = [5] }
flag = { c = "flag", type = "uint8" }
level = { c = "level", type = "uint8" }
[outputs]
out = { c = "out", type = "float32" }
"""
"""22 bytes there and 4 back: a STEP of 32 bytes, a reply of 16, before they are framed."""


def run(quick: bool = False) -> Result:
    """Measure; the firmware of the exchange is built by avr-gcc."""
    title = "a controller on an emulated board"
    rows: list[Row] = []
    try:
        with tempfile.TemporaryDirectory(prefix="rtsim-bench-") as folder:
            small = _exchange(Path(folder))
            for baud in BAUDS:
                rows += _in_cycles(small, baud, 20 if quick else 200)
            rows += _through_a_port(small, 50 if quick else 1000)
        rows += _python(200 if quick else 5000)
        rows += _speed(1.0 if quick else 20.0, 1 if quick else 3)
    except (BoardError, RtsimError) as error:
        return Result("pitl", title, tuple(rows), skipped=str(error))
    return Result("pitl", title, tuple(rows))


def _exchange(folder: Path) -> Interface:
    (folder / "exchange.c").write_text(_C)
    (folder / "exchange.h").write_text(
        "extern float out; extern float in[5]; extern unsigned char flag, level; void go(void);\n"
    )
    (folder / "exchange.toml").write_text(_TOML)
    return load_interface(folder / "exchange.toml")


# -- in cycles


def _in_cycles(interface: Interface, baud: int, steps: int) -> list[Row]:
    """In lockstep: the exchange against bytes on the wire and the controller's step."""
    image = firmware(interface, baud=baud).path
    url = f"{DEFAULT_URL}?baud={baud}"
    board = BoardController(interface, url=url, firmware=image, cases=None).fresh()
    try:
        inputs = interface.inputs.initial()
        for k in range(steps):
            tag = Tag(k * 20_000_000)
            board.send(tag, inputs)
            if board.receive(tag, 1.0) is None:
                raise RuntimeError("no answer within 1 s")
        budget, took = board.budget, np.array(board.exchange_ns)
    finally:
        board.close()
    ratio = float(np.median(took)) / budget.exchange_ns
    figures = {**spread(took), "wire + step [ns]": float(budget.exchange_ns), "ratio [x]": ratio}
    what = f"exchange at {baud} baud, in cycles"
    return [Row(what, figures, f"<= {OVER_WIRE} x wire + step", ratio <= OVER_WIRE)]


# -- through pyserial and a pseudo-terminal


def _through_a_port(interface: Interface, steps: int) -> list[Row]:
    image = firmware(interface).path
    with _served(image) as link:
        session = Session(interface)
        session.connect(stopwatch())
        _until(session, link, Connected)
        session.start(interface.parameters.initial(), stopwatch())
        _until(session, link, Started)
        inputs, took, cycles = interface.inputs.initial(), [], 0
        for k in range(steps):
            began = stopwatch()
            session.step(Tag(k), inputs, began)
            step = _until(session, link, Stepped)
            took.append(stopwatch() - began)
            assert isinstance(step, Stepped)
            cycles = max(cycles, step.cycles)
    budget = Budget.of(interface, 500_000, cycles * NS_PER_S // 16_000_000)
    more = np.array(took) - budget.exchange_ns
    figures = spread(more)
    median = figures["median [ns]"]
    assert median is not None
    what = "the same through pyserial and a pty: more than wire + step"
    return [Row(what, figures, "median <= 1 ms", median <= PORT_NS)]


@contextmanager
def _served(image: Path) -> Iterator[BoardLink]:
    with ExitStack() as undo:
        board = undo.enter_context(PacedBoard(DEFAULT_URL, image))
        link = SerialLink(board.port, 500_000)
        undo.callback(link.close)
        yield link


def _until(session: Session, link: BoardLink, wanted: type[Event]) -> Event:
    """Converse until ``wanted`` happens."""
    until = stopwatch() + 10 * NS_PER_S
    while stopwatch() < until:
        if data := session.outgoing():
            link.send(data)
        link.wait(0.05)
        for event in (*session.receive(link.receive(), stopwatch()), *session.poll(stopwatch())):
            if isinstance(event, wanted):
                return event
            raise RuntimeError(f"{event}")
    raise RuntimeError(f"no {wanted.__name__} within 10 s")


# -- Python


def _python(steps: int) -> list[Row]:
    """What session and codec take of an exchange of the F-16's law; the board is a function."""
    interface = load_interface(LAW)
    outputs = bytes(Codec(interface.output_fields).bytes)
    session, parser = Session(interface), Parser()
    told: Callable[[Message], Message] = _board_of(interface, outputs)

    def answered(data: bytes) -> bytes:
        frames = [f for f in parser.feed(data) if isinstance(f, ProtocolFrame)]
        asked = [(decode_message(f), f.sequence) for f in frames]
        return b"".join(encode_message(told(m), s) for m, s in asked if m is not None)

    session.connect(0)
    session.receive(answered(session.outgoing()), 0)
    session.start(interface.parameters.initial(), 0)
    while data := session.outgoing():
        session.receive(answered(data), 0)
    inputs, took = np.linspace(0.0, 1.0, interface.inputs.size), []
    for k in range(steps):
        began = stopwatch()
        session.step(Tag(k), inputs, 0)
        data = session.outgoing()
        sent = stopwatch()
        reply = answered(data)
        heard = stopwatch()
        (event,) = session.receive(reply, 0)
        took.append(stopwatch() - heard + sent - began)
        assert isinstance(event, Stepped)
    figures = spread(took)
    median = figures["median [ns]"]
    assert median is not None
    return [Row("Python's share of an exchange", figures, "median <= 60 us", median <= PYTHON_NS)]


def _board_of(interface: Interface, outputs: bytes) -> Callable[[Message], Message]:
    """Answers as a board would, without computing anything."""
    count = 0

    def answer(message: Message) -> Message:
        nonlocal count
        name = type(message).__name__
        if name == "Hello":
            schema, clock = wire_schema(interface), 16_000_000
            return HelloReply(VERSION, 4, 128, schema, 1, clock, 1, name_hash(interface.name))
        if name == "Start":
            offset, values = getattr(message, "offset"), getattr(message, "values")  # noqa: B009
            return StartReply(0, offset + len(values))
        count += 1
        return StepReply(0, 1000, 100, count, outputs)

    return answer


# -- the emulator


def _speed(seconds: float, rounds: int) -> list[Row]:
    """The F-16's scenario in lockstep, its law on the board."""
    rows = []
    for backend, bound in (("avr8js", SPEED), ("simavr", None)):
        speeds = []
        for _ in range(rounds):
            scenario = load_scenario("f16", {"case": "13.1"})
            board = BoardController(LAW, url=f"{DEFAULT_URL}?backend={backend}", cases=None)
            scenario.replace_controller("autopilot", board)
            speeds.append(simulate(scenario, until=seconds).speed)
        median = float(np.median(speeds))
        figures = {"times real time [x]": median, "slowest [x]": min(speeds)}
        told = "" if bound is None else f">= {bound} x real time"
        ok = None if bound is None else median >= bound
        rows.append(Row(f"F-16 with its law on {backend}, lockstep", figures, told, ok))
    return rows

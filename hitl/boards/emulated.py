"""An emulated board that runs the unchanged flash image in lockstep, cycle by cycle.

The emulator runs in a separate process. :mod:`hitl.boards.wire` defines its messages.
"""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from hitl.boards import wire
from hitl.boards.contract import EMPTY, BoardError, BoardGone, BusEnd, Edge, Pwm, Stamped
from hitl.boards.description import BoardDescription, Uart
from hitl.boards.known import DEFAULT_BOARD
from hitl.boards.wire import In, Input, Out, WireEvent
from hitl.worker.ending import WorkerEnding, end_process
from rtsim.core.clock import stopwatch

_PATIENCE_S = 60.0
_GRACE_S = 2.0
_MOST_SAID = 2000


class EmulatorProcess:
    """The process of an emulator, which answers each request once.

    After a failure, the process ends, and each later call raises the same error. ``command`` starts
    the emulator, and error messages call it ``name``. ``patience`` is the longest time (s) to wait
    for an answer. The emulator also ends when this process ends. Raises :class:`BoardError` if the
    emulator cannot be started.
    """

    def __init__(self, command: Sequence[str | Path], name: str, patience: float = _PATIENCE_S):
        self._name, self._patience = name, patience
        self._failed: str | None = None
        self._hung = self._killed = False
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [str(c) for c in command],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
            )  # fmt: skip
        except OSError as error:
            self._said.close()
            raise BoardError(f"cannot start the emulator {command[0]}: {error.strerror}") from None
        self._asked: int | None = None
        self._closing = threading.Event()
        self._watchdog = threading.Thread(target=self._watch, name=f"{name} watchdog", daemon=True)
        self._watchdog.start()
        self._guarded_hello()

    def _guarded_hello(self) -> None:
        self._asked = stopwatch()
        kind, body = self._answer()
        if kind != "H":
            self._fail(f"greeted with a message {kind!r}; expected 'H'")
        try:
            self.emulator = wire.greeting(body)
        except BoardError as error:
            self.lied(error)

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raise ``BoardError`` if the process has failed or is closed."""
        if self._failed is not None:
            raise self._error()

    def ask(self, kind: str, body: bytes = b"", expected: str = "K") -> bytes:
        """Send a request, and return the data of the answer.

        ``kind`` is the kind of the request, and ``expected`` the kind of the answer. Raises
        :class:`BoardError` if the process ends, hangs, reports an error, or sends another kind of
        message.
        """
        self.check()
        if len(body) > wire.MOST_BODY:
            raise BoardError(
                f"a request to {self._name} has {len(body)} bytes; at most {wire.MOST_BODY} "
                "are allowed: send fewer bytes in one request"
            )
        self._asked = stopwatch()
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(wire.frame(kind, body))
            self._process.stdin.flush()
        except OSError:
            self._fail(self._ending())
        given, answer = self._answer()
        if given == "E":
            self._fail(f"reports: {answer.decode('utf-8', 'replace')[:_MOST_SAID]}")
        if given != expected:
            self._fail(f"answered {kind!r} with {given!r}; expected {expected!r}")
        return answer

    def lied(self, error: BoardError) -> NoReturn:
        """End the process after an invalid answer, and raise ``BoardError``."""
        self._fail(f"answered with {error}")

    def close(self) -> None:
        if self._failed is None:
            self._failed = f"{self._name} is closed"
        self._end()

    def _answer(self) -> tuple[str, bytes]:
        length, kind = wire.HEAD.unpack(self._read(wire.HEAD.size))
        if length > wire.MOST_BODY:
            self._fail(f"announced {length} bytes; at most {wire.MOST_BODY} are allowed")
        body = self._read(length)
        self._asked = None
        return chr(kind), body

    def _read(self, length: int) -> bytes:
        assert self._process.stdout is not None
        try:
            data = self._process.stdout.read(length)
        except OSError:
            data = b""
        if len(data) < length:
            self._fail(self._ending())
        return data

    def _watch(self) -> None:
        while not self._closing.wait(self._patience / 4):
            asked = self._asked
            if asked is not None and stopwatch() - asked > self._patience * 1e9:
                self._hung = True
                self._process.kill()
                return

    def _ending(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        if self._hung:
            return f"did not answer within {self._patience:g} s and was killed"
        code = self._process.poll()
        if code is None:
            return "closed its end of the pipe"
        said = self._last_words()
        ending = WorkerEnding(code, "", "")
        self._killed = ending.killed
        words = ending.in_words if code else "ended with exit status 0"
        return words + (f"; it said:\n{said}" if said else "")

    def _last_words(self) -> str:
        size = self._said.seek(0, 2)
        self._said.seek(max(0, size - _MOST_SAID))
        return self._said.read().decode("utf-8", "replace").strip()

    def _fail(self, what: str) -> NoReturn:
        self._failed = f"{self._name} {what}"
        self._end()
        raise self._error()

    def _error(self) -> BoardError:
        text = self._failed or ""
        return BoardGone(text) if self._hung or self._killed else BoardError(text)

    def _end(self) -> None:
        self._closing.set()
        end_process(self._process, 0.0 if self._hung else _GRACE_S)
        if self._watchdog is not threading.current_thread():
            self._watchdog.join()
        self._said.close()


SLICE = 1_600_000
"""Greatest number of cycles per request. Frequent answers allow the detection of a hang."""
_MOST_KEPT = 1 << 20
_OTHER_BITS = 0x5A


class EmulatedPins:
    """The pins of an :class:`EmulatedBoard`; see :class:`hitl.boards.contract.Pins`."""

    def __init__(self, board: EmulatedBoard) -> None:
        self._board = board
        self._description = board.description
        self._names = {} if board.description.pins is None else board.description.pins.names
        self._levels: dict[int, bool] = {}
        self._edges: deque[Edge] = deque(maxlen=_MOST_KEPT)

    def write(self, pin: str, level: bool) -> None:
        self._board._input(In.LEVEL, self._description.pin(pin), int(bool(level)))

    def set_volts(self, pin: str, volts: float) -> None:
        board = self._description
        channel, most = board.channel(pin), board.require_pins().volts
        if not 0.0 <= volts <= most:
            raise BoardError(
                f"cannot apply {volts!r} V to pin {pin}: the pins of {board.phrase} take 0 to "
                f"{most:g} V"
            )
        self._board._input(In.VOLTS, channel, round(volts * 1000))

    def read(self, pin: str) -> bool:
        return self._levels.get(self._description.pin(pin), False)

    def edges(self) -> list[Edge]:
        edges = list(self._edges)
        self._edges.clear()
        return edges

    def pwm(self, pin: str) -> Pwm | None:
        self._description.pin(pin)
        pins = self._description.require_pins()
        window = pins.registers
        return pins.pwm(pin, self._board.peek(window.address, window.length))

    def _took(self, event: WireEvent) -> None:
        self._levels[event.which] = bool(event.value)
        for end in self._board.ends:
            end.edge(self._names.get(event.which, ""), bool(event.value), event.cycle)
        if event.which in self._names:
            self._edges.append(Edge(event.cycle, self._names[event.which], bool(event.value)))


class EmulatedBoard:
    """A ``hitl.boards.contract.Board`` whose processor an emulator simulates in another process.

    A byte takes ten bit times. If the bit rates at both ends differ by more than 4.5 %, all bytes
    are changed and counted. Raises ``BoardError`` if the emulator cannot be started or rejects the
    image.

    Args:
        image: The program from address 0.
        command: Command that starts the emulator.
        name: Name of the emulator in error messages.
        baud: Rate of the host's end of the line, bit/s; by default the rate of the firmware.
        patience: Timeout for one answer of the emulator, s of the wall clock.
        description: Description of the board. The default is the default board.
    """

    def __init__(
        self, image: bytes, command: Sequence[str | Path], name: str,
        baud: int | None = None, patience: float | None = None,
        description: BoardDescription | None = None,
    ) -> None:  # fmt: skip
        self.description = description or DEFAULT_BOARD
        more = {} if patience is None else {"patience": patience}
        pins = self.description.pins
        self._pin_count = wire.MOST_PINS if pins is None else pins.count
        self._process = EmulatorProcess(command, f"the emulated board ({name})", **more)
        self._reached = 0
        self._inputs: list[Input] = []
        self._arrived: deque[Stamped] = deque(maxlen=_MOST_KEPT)
        self._pins = EmulatedPins(self)
        self._ends: dict[int, BusEnd] = {}
        self._name = name
        self.lost = 0
        """Number of bytes that the board's receiver dropped because it was full or disabled."""
        self.garbled = 0
        """Number of bytes from the board that were sent and received at different rates."""
        self.restarts = 0
        """Number of resets of the board by its own watchdog."""
        try:
            self._process.ask("L", image)
            if baud is not None:
                self._process.ask("B", round(10 * self.clock_hz / baud).to_bytes(4, "little"))
        except BaseException:
            self.close()
            raise

    @property
    def emulator(self) -> tuple[str, str]:
        return self._process.emulator

    @property
    def clock_hz(self) -> int:
        return self.description.clock_hz

    @property
    def cycles(self) -> int:
        return self._reached

    @property
    def pins(self) -> EmulatedPins:
        return self._pins

    @property
    def ends(self) -> Iterable[BusEnd]:
        return self._ends.values()

    def attach(self, bus: str, end: BusEnd) -> None:
        """Connect simulated devices to a bus of the board.

        Raises ``BoardError`` if the bus does not exist, is in use, or cannot be emulated.
        """
        number = self.description.bus(bus).number
        emulator = self.description.emulators.get(self._name)
        if emulator is not None and not emulator.buses:
            raise BoardError(f"the emulator {self._name} of {self.description.phrase} has no buses")
        if number in self._ends:
            raise BoardError(f"{bus} of {self.description.phrase} has an end already")
        self._ends[number] = end

    @property
    def baud(self) -> float:
        """Bit rate that the program on the board has set, bit/s."""
        uart = self._uart()
        window = uart.registers
        return uart.rate(self.peek(window.address, window.length), self.clock_hz)

    @property
    def line_on(self) -> bool:
        uart = self._uart()
        return uart.on(self.peek(uart.registers.address, uart.registers.length))

    def advance(self, cycles: int) -> None:
        if cycles < 0:
            raise BoardError(f"advance({cycles}): the number of cycles must be >= 0")
        self._run(self._reached + cycles, until_byte=False)

    def send(self, data: bytes, at: int | None = None) -> None:
        """Send bytes to the board at the cycle ``at``, by default now."""
        for value in data:
            self._input(In.BYTE, 0, value, at)

    def receive(self) -> bytes:
        return bytes(stamped.value for stamped in self.take())

    def take(self) -> list[Stamped]:
        self._process.check()
        arrived = list(self._arrived)
        self._arrived.clear()
        return arrived

    def wait(self, timeout: float) -> bool:
        self._process.check()
        if not self._arrived:
            self._run(self._reached + max(0, round(timeout * self.clock_hz)), until_byte=True)
        return bool(self._arrived)

    def reset(self) -> None:
        self._process.ask("R")
        self._pins._levels.clear()
        self._let_go()

    def peek(self, address: int, length: int) -> bytes:
        """Read ``length`` bytes of registers or RAM from ``address``.

        Reading changes nothing on the board.
        """
        found = self._process.ask("P", wire.PEEK.pack(address, length), "P")
        if len(found) != length:
            self._process.lied(BoardError(f"{len(found)} bytes of memory; expected {length}"))
        return found

    def close(self) -> None:
        self._process.close()

    def _uart(self) -> Uart:
        uart = self.description.uart
        if uart is None:
            raise BoardError(f"the description of {self.description.phrase} has no uart; add one")
        return uart

    def _input(self, kind: In, which: int, value: int, at: int | None = None) -> None:
        self._process.check()
        if len(self._inputs) >= wire.MOST_EVENTS:
            raise BoardError(
                f"more than {wire.MOST_EVENTS} inputs of the emulated board are pending; "
                "call advance() or wait() to let the board run"
            )
        cycle = self._reached if at is None else max(at, self._reached)
        self._inputs.append(Input(cycle, kind, which, value))

    def _run(self, target: int, until_byte: bool) -> None:
        while True:
            goal = min(target, self._reached + SLICE, *self._serve())
            inputs, self._inputs = self._inputs, []
            answer = self._process.ask("A", wire.advance(goal, inputs, until_byte), "A")
            try:
                reached, events = wire.advanced(answer, self._reached, goal, self._pin_count)
            except BoardError as error:
                self._process.lied(error)
            self._reached = reached
            for event in events:
                self._take(event)
            if reached == target or (until_byte and self._arrived):
                return

    def _serve(self) -> list[int]:
        for end in self.ends:
            while (due := end.due) is not None and due <= self._reached:
                end.serve(self._reached)
        return [end.due for end in self.ends if end.due is not None]

    def _let_go(self) -> None:
        for end in self.ends:
            end.let_go()

    def _operated(self, event: WireEvent) -> None:
        number, op, byte = wire.bus_operation(event.value)
        end = self._ends.get(event.which)
        reply = EMPTY[op] if end is None else end.took(op, byte, event.cycle)
        if reply is not None:
            self._input(In.BUS, event.which, wire.bus_answer(number, reply), reply.at)

    def _take(self, event: WireEvent) -> None:
        if event.kind is Out.BYTE:
            self.garbled += event.which
            value = _garbled(event.value) if event.which else event.value
            self._arrived.append(Stamped(event.cycle, value))
        elif event.kind is Out.EDGE:
            self._pins._took(event)
        elif event.kind is Out.LOST:
            self.lost += 1
        elif event.kind is Out.BUS:
            self._operated(event)
        else:
            self.restarts += 1
            self._let_go()


def _garbled(value: int) -> int:
    return value ^ _OTHER_BITS or 0xFF

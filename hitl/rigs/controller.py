"""Use a rig as a controller: its inputs are written to the I/O node's pins, its outputs are read.

:class:`hitl.controllers.board.BoardController` communicates with the node as with any board, with
the same handshake.  This module converts between the signals of the rig and the node's pins.
"""

from __future__ import annotations

from array import array
from dataclasses import replace

from hitl.boards import open_board, parse_url
from hitl.boards.description import BoardDescription
from hitl.boards.emulated import EmulatedBoard
from hitl.boards.known import DEFAULT_BOARD, DEFAULT_URL
from hitl.controllers.board import BoardController
from hitl.firmware import firmware
from hitl.interface import Interface, load_interface
from hitl.protocol.line import Budget
from hitl.rigs import running
from hitl.rigs.at_buses import BusDevices
from hitl.rigs.node import NodeReader, NodeWriter, delay_ns
from hitl.rigs.pins import CLOCK_HZ
from hitl.rigs.rig import NODE, Rig
from hitl.rigs.wiring import Probe, WiredBoards
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Period, Tag
from rtsim.engine.faults.line_kinds import LineFaults


def node_interface(
    period: Period | None = None, board: BoardDescription = DEFAULT_BOARD
) -> Interface:
    """Return the interface of the I/O node's firmware on ``board``.

    Its signals are the same on every board.  ``period``, if given, replaces the period of its file.
    Raises :class:`ScenarioError` if ``board`` cannot be an I/O node.
    """
    if board.io_node is None:
        raise ScenarioError(
            f"the firmware of the I/O node does not run on {board.phrase}; use {DEFAULT_URL}"
        )
    interface = load_interface(board.io_node.interface)
    return interface if period is None else replace(interface, period=period)


def wired_boards(rig: Rig, probe: Probe | None = None) -> WiredBoards:
    """Start the emulated boards of ``rig`` from power-on and wire them together.

    ``probe`` is called with each voltage between boards.  Raises
    :class:`hitl.boards.contract.BoardError` if a board cannot be opened.
    """
    image = firmware(
        node_interface(board=rig.description), baud=rig.baud, board=rig.description
    ).path
    boards: dict[str, EmulatedBoard] = {}
    try:
        boards[NODE] = open_board(rig.url, image)
        for device in rig.devices:
            boards[device.name] = open_board(device.board, device.firmware)
        slice_cycles = rig.slice_ns * CLOCK_HZ // NS_PER_S
        return WiredBoards(boards, rig.wires, slice_cycles, probe)
    except BaseException:
        for board in boards.values():
            board.close()
        raise


class RigController:
    """A controller that drives and reads the devices at the pins of ``rig``.

    It replaces a scenario's controller.  ``period`` is the scenario's period, used for the time
    budget of the line.  With ``paced`` the rig runs by the wall clock.  ``silence`` and
    ``patience`` are the timeouts of :class:`hitl.controllers.board.BoardController`, s.  ``probe``
    is called with each voltage between emulated boards.
    """

    outside = True

    def __init__(
        self,
        rig: Rig,
        period: Period,
        *,
        paced: bool = False,
        silence: float = 10.0,
        patience: float = 5.0,
        probe: Probe | None = None,
    ) -> None:
        self.rig = rig
        self.interface = rig.interface(period)
        self.inputs: Signals = self.interface.inputs
        self.outputs: Signals = self.interface.outputs
        self.parameters = Signals()
        self.name = rig.name
        self.silence, self.patience = silence, patience
        self.own_time = not paced
        self.boards: WiredBoards | None = None
        """The emulated boards; ``None`` until they run, and for a real I/O node."""
        self.buses: BusDevices | None = None
        """The bus devices at the emulated boards."""
        self.last: dict[str, float] = {}
        """Latest value of each signal that was written or read, by the signal's name."""
        self._period, self._probe = period, probe
        node = node_interface(period, rig.description)
        emulated = parse_url(rig.board).emulated
        if rig.bus_devices and not emulated:
            names = ", ".join(device.name for device in rig.bus_devices)
            raise ScenarioError(
                f"{rig.name} has simulated bus devices ({names}), which need emulated boards, but "
                f"{rig.board} is a real board; use {DEFAULT_URL}"
            )
        self.node = BoardController(
            node, rig.parameters(), url=rig.url, link=self._wired if emulated else None,
            silence=silence, patience=patience, cases=None, paced=paced,
        )  # fmt: skip
        self._writer = NodeWriter(rig)
        board = rig.description
        budget = Budget.of(node, rig.baud, clock_hz=board.clock_hz, line=board.line)
        self._reader = NodeReader(rig, self.node.outputs, delay_ns(budget.request_bytes, rig.baud))

    def _wired(self) -> WiredBoards:
        boards = wired_boards(self.rig, self._probe)
        try:
            self.buses = BusDevices(self.rig, boards.boards)
        except BaseException:
            boards.close()
            raise
        self.boards = boards
        return boards

    def fresh(self) -> RigController:
        """Return a new controller of the same rig at its start.

        Its boards are powered up, its pins are at their fail-safe values, and emulated boards have
        run for the settling time.
        """
        out = RigController(
            self.rig, self._period, paced=not self.own_time, silence=self.silence,
            patience=self.patience, probe=self._probe,
        )  # fmt: skip
        out.node = out.node.fresh()
        if out.boards is not None:
            out.boards.advance(self.rig.settle_ns * CLOCK_HZ // NS_PER_S)
            out.anchor(Tag(0))
            if out.buses is not None:
                out.buses.begin()
        return out

    def describe(self) -> dict[str, object]:
        """Return the description of the rig for a recording's header."""
        return {
            "type": type(self).__name__,
            "rig": str(self.rig.path),
            "schema": f"{self.interface.schema:016x}",
            "node": self.node.describe(),
        }

    def send(self, tag: Tag, inputs: Vector) -> None:
        """Write ``inputs`` to the pins, and set the quantities of the bus devices.

        Raises :class:`ControllerError` for a value outside the limits of its signal or pin.
        """
        count = len(self.rig.to_pins)
        drive = self._writer.drive(inputs[:count])
        if self.buses is not None and self.rig.bus_devices:
            self.advance(tag)
            self.buses.set(inputs[count:].tolist())
        self.last.update(zip(self.inputs.names, inputs.tolist(), strict=True))
        self.node.send(tag, drive)

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        found = self.node.receive(tag, patience)
        if found is None:
            return None
        values = self._reader.values(tag, found, self.node.begun_ns)
        self.last.update(zip(self.outputs.names, values.tolist(), strict=True))
        return values

    def spoil(self, line: LineFaults) -> None:
        """Inject the faults of ``line`` into the node's bytes from now on."""
        self.node.spoil(line)

    def advance(self, tag: Tag) -> None:
        self.node.advance(tag)

    def anchor(self, tag: Tag) -> None:
        self.node.anchor(tag)

    def stamps(self) -> tuple[int, ...]:
        return self.node.stamps()

    def silent(self, tag: Tag) -> ControllerError:
        return self.node.silent(tag)

    def explained(self, tag: Tag, error: ControllerError) -> ControllerError:
        return self.node.explained(tag, error)

    @property
    def free_running(self) -> bool:
        """True if the rig continues during a pause of the simulation; then a pause is refused."""
        return running.free_running(self.rig) and not self.rig.hold

    @property
    def took_ns(self) -> array[int]:
        """Execution time of each step on the I/O node, ns."""
        return self.node.took_ns

    @property
    def budget(self) -> Budget:
        """Time budget of one exchange with the I/O node, for its longest step so far."""
        return self.node.budget

    @property
    def repeated(self) -> int:
        """Number of requests that were sent again because no answer came."""
        return self.node.counts.repeated

    @property
    def silences(self) -> int:
        """Number of times at which the node's watchdog set the fail-safe values."""
        return self._reader.silences

    def close(self) -> None:
        self.node.close()

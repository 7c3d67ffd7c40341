"""C code on boards: firmware for a comparison, and a comparison of several boards."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hitl.boards.contract import BoardError
from hitl.boards.description import BoardDescription
from hitl.boards.known import DEFAULT_BOARD, DEFAULT_URL, board_named
from hitl.boards.paced import check_posix
from hitl.boards.serial_port import pyserial
from hitl.boards.urls import parse_url
from hitl.building.build import build
from hitl.building.toolchain import BuildError
from hitl.comparison.conditions import Stage
from hitl.comparison.exercise import Exercise
from hitl.comparison.verdict import refuse_lack
from hitl.controllers.board import BoardController
from hitl.controllers.c_controller import unnamed, warnings_of
from hitl.controllers.sil import CASES, SilController
from hitl.firmware import firmware as firmware_of
from hitl.firmware.firmware import Firmware, firmware
from hitl.interface import Interface, InterfaceError, load_interface
from hitl.interface.ranges import ranges_of
from hitl.interface.targets import check_target
from hitl.protocol.line import Budget
from hitl.protocol.messages import HelloReply
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag
from rtsim.engine.faults.line_kinds import BoardFault
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ControllerComponent

HOST, BOARD = "host C", "board"


class OnBoards(NamedTuple):
    """The stages of a comparison, on the host and on a board, with the firmware."""

    stages: list[Stage]
    images: dict[str, Firmware]
    """The firmware that was built for emulated boards, by controller."""

    @property
    def board(self) -> Stage:
        return self.stages[-1]

    @property
    def warnings(self) -> dict[str, str]:
        return {
            f"{name} ({stage.name})": warnings_of(controller)
            for stage in self.stages
            for name, controller in stage.controllers.items()
        }


class Met(NamedTuple):
    """A board that was found before the first run: identity and time budget."""

    board: HelloReply
    budget: Budget
    baud: int


def stages(
    controllers: Mapping[str, str | Path],
    url: str,
    *,
    paced: bool = False,
    firmware: Path | None = None,
    cases: Path | None = CASES,
    link: str | None = None,
) -> OnBoards:
    """Build the C code for this host and for the board at ``url``.

    ``controllers`` maps components to interface files. With ``paced``, the closed loop with the
    board is in real time; the open loop is always in lockstep. ``firmware`` is an Intel HEX file
    for an emulated board; ``link`` is the link to the C code on this host, as for
    :class:`SilController`.

    Raises :class:`InterfaceError` for types that the board's processor does not have,
    :class:`ScenarioError` for two controllers on one real board, and :class:`BoardError` if an
    emulated board cannot be paced on this system.
    """
    at = parse_url(url)
    emulated = at.emulated
    if not emulated and len(controllers) > 1:
        raise ScenarioError(
            f"the board at {url} can run only one controller, but {', '.join(controllers)} are "
            f"given; give one of them, or use emulated boards: --board {DEFAULT_URL}"
        )
    if not emulated and firmware is not None:
        raise ScenarioError(
            f"the image {firmware} is for an emulated board, but {url} is a real board, which runs "
            f"the firmware that it was flashed with; type: rtsim flash {firmware} --port PORT"
        )
    if paced and emulated:  # check now, because the run opens the board's port last
        check_posix()
        pyserial()
    interfaces = {name: load_interface(reference) for name, reference in controllers.items()}
    for interface in interfaces.values() if emulated else ():  # a real board reports its types
        check_processor(interface, at.description)
    images = {}
    if emulated and firmware is None:
        images = {
            n: firmware_of(i, baud=at.baud, board=at.description) for n, i in interfaces.items()
        }
    hosts = {n: SilController(build(i), cases=cases, link=link) for n, i in interfaces.items()}
    kept = {name: own_values(host) for name, host in hosts.items()}

    def boards(paced: bool) -> dict[str, BoardController]:
        return {
            name: BoardController(
                interface,
                url=url,
                firmware=images[name].path if name in images else firmware,
                cases=cases,
                paced=paced,
                warnings=images[name].warnings if name in images else "",
                kept=kept[name],
            )
            for name, interface in interfaces.items()
        }

    board = Stage(BOARD, boards(False), boards(True) if paced else None)
    return OnBoards([Stage(HOST, hosts), board], images)


def own_values(host: SilController) -> dict[str, object]:
    """Return the values of parameters that only the C code declares."""
    names = unnamed(host.interface, host.values)
    if not names:
        return {}
    with closing(host.fresh()) as running:
        own = running.p
        return {name: own[host.parameters.slice(name)].tolist() for name in names}


def check_faults(scenario: Scenario, board: Stage, url: str) -> None:
    """Raise ``ScenarioError`` for a fault that cannot be caused on the board."""
    for fault in () if parse_url(url).emulated else scenario.declared_faults:
        if issubclass(fault.kind, BoardFault) and fault.part in board.controllers:
            raise ScenarioError(
                f"fault {fault.name}: the board at {url} cannot be {fault.kind.needs} by the "
                f"host; run on {DEFAULT_URL}, or leave the fault out"
            )


def check_processor(interface: Interface, board: BoardDescription = DEFAULT_BOARD) -> None:
    """Raise ``InterfaceError`` for a type that the board lacks."""
    try:
        check_target(interface, board.target)
    except InterfaceError as error:
        fitting = _fitting(interface, board)
        if not fitting:
            raise
        text = str(error).partition(";")[0]
        raise InterfaceError(f"{text}; type: {interface.path.name}:{fitting[0]}") from None


def _fitting(interface: Interface, board: BoardDescription) -> list[str]:
    out = []
    for variant in tomllib.loads(interface.path.read_text(encoding="utf-8")).get("variants", {}):
        try:
            check_target(load_interface(f"{interface.path}:{variant}"), board.target)
        except InterfaceError:
            continue
        out.append(variant)
    return out


def in_words(image: Firmware) -> str:
    made = "shipped with rtsim" if image.prebuilt else "built here"
    return (
        f"{made} ({image.compiler}), {image.flash_bytes} bytes of flash, {image.ram_bytes} bytes "
        f"of RAM beside the stack"
    )


def meet(stage: Stage, scenario: Scenario) -> dict[str, Met]:
    """Connect to each board, to detect a missing board before the first run.

    Returns the identity and the time budget of each board. Raises the error of the connection.
    """
    out, periods = {}, scenario.of(ControllerComponent)
    for name, prototype in stage.controllers.items():
        assert isinstance(prototype, BoardController)
        controller = prototype.fresh()
        try:
            assert controller.board is not None
            budget = controller.budget.every(periods[name].period)
            out[name] = Met(controller.board, budget, controller.baud)
        finally:
            controller.close()
    return out


# Comparison of one controller on several emulated boards with the C code on this host.

PATIENCE_S = 10.0
_UNBOUNDED = 100.0
"""Greatest magnitude of an input without a range."""


class Difference(NamedTuple):
    """The first output of a board that differs from the output on the host."""

    step: int
    output: str
    host: float
    board: float

    @property
    def in_words(self) -> str:
        apart = self.board - self.host
        by = f"a difference of {apart:.6g}" if apart else "other bits of the same value"
        return (
            f"{self.output} differs first at step {self.step}: host C {self.host!r}, board "
            f"{self.board!r}, {'NaN against another value' if np.isnan(apart) else by}"
        )


@dataclass(frozen=True)
class OnOneBoard:
    """The results of one board, or why it could not run the controller."""

    board: BoardDescription
    image: Firmware | None = None
    emulator: str = ""
    baud: int = 0
    steps: int = 0
    equal: int = 0
    """Number of steps whose outputs are bit-identical to the host's build."""
    cycles: tuple[int, ...] = ()
    exchange_ns: tuple[int, ...] = ()
    stack: int = 0
    why: str = ""
    """Why the controller cannot run on this board or has stopped; "" if it ran all steps."""
    first: Difference | None = None
    """The first difference, or ``None`` if all steps are equal."""


@dataclass(frozen=True)
class OnHost:
    """The outputs of the C code on this host, or why a step failed."""

    name: str
    answers: Sequence[Vector]
    exercise: Exercise
    error: str = ""
    environment: bool = False
    """True if the environment caused the error, for example a host without free memory."""


@dataclass(frozen=True)
class OfBoards(Judged):
    """The result of :func:`on_boards`."""

    host: OnHost
    rows: Sequence[OnOneBoard]

    def _judge(self) -> Outcome:
        if self.differing or (self.host.error and not self.host.environment):
            return Outcome.FAILED
        undecided = self.host.error or self.stopped or self.nothing or not self.rows
        return Outcome.UNDECIDED if undecided else Outcome.PASSED

    @property
    def differing(self) -> list[OnOneBoard]:
        return [row for row in self.rows if row.equal < row.steps]

    @property
    def stopped(self) -> list[str]:
        return [f"{row.board.name}: {row.why}" for row in self.rows if row.why]

    @property
    def idle(self) -> list[str]:
        return [f"{self.host.name}.{words}" for words in self.host.exercise.idle]

    @property
    def nothing(self) -> str:
        """Why equal outputs prove nothing, or ""."""
        found = self.host.exercise
        if found.any:
            return ""
        so = "there is no value to compare" if found.never_finite else "C that does nothing agrees"
        return (
            f"{self.host.name}: {'; '.join(found.still_in_words)}; so {so}; give more --steps, or "
            "declare ranges of the inputs in which the outputs move"
        )

    @property
    def why(self) -> str:
        if self.host.error:
            return self.host.error
        if self.differing:
            names = ", ".join(row.board.name for row in self.differing)
            return f"outputs differ from those of the host's build on {names}"
        return "; ".join(filter(None, [*self.stopped, self.nothing]))


def random_inputs(interface: Interface, count: int, seed: int) -> list[Vector]:
    """Return ``count`` random inputs within the range and type of each signal.

    A signal without a range has values within +-100 and within its type.
    """
    chance = np.random.default_rng(seed)
    ranges = ranges_of(interface, _UNBOUNDED)
    shares = (chance.random(len(ranges)).tolist() for _ in range(count))
    return [
        np.array([one.at(share) for one, share in zip(ranges, row, strict=True)]) for row in shares
    ]


def on_boards(interface: Interface, boards: Iterable[str], inputs: Sequence[Vector]) -> OfBoards:
    """Run a controller with equal inputs on this host and on several emulated boards.

    If the controller cannot run on a board, the result contains the reason. If a step fails on this
    host, no board is run. Raises the error of the host's build or start, and :class:`BoardError`
    for an unknown board.
    """
    known = [board_named(name) for name in boards]
    host = _on_host(interface, inputs)
    able = [] if host.error else known
    return OfBoards(host, [_on_board(interface, board, inputs, host.answers) for board in able])


def _on_host(interface: Interface, inputs: Sequence[Vector]) -> OnHost:
    answers: list[Vector] = []
    error = ""
    with closing(SilController(interface).fresh()) as host:
        try:
            for k, values in enumerate(inputs):
                answers.append(_answered(host, k, Tag(interface.period.tick(k)), values))
        except ControllerError as failed:
            error = str(failed)
            refuse_lack(error, interface)
        table = np.array(answers).reshape(len(answers), interface.outputs.size)
        given = np.array(inputs).reshape(len(inputs), interface.inputs.size)
        exercise = Exercise.of(host, given, table)
    return OnHost(interface.name, answers, exercise, error, host.environment)


def _answered(host: SilController, step: int, tag: Tag, values: Vector) -> Vector:
    host.send(tag, values)
    answer = host.receive(tag, PATIENCE_S)
    if answer is None:
        raise ControllerError(f"step {step} did not return on this host: {host.silent(tag)}")
    return answer.copy()


def _on_board(
    interface: Interface, board: BoardDescription, inputs: Sequence[Vector], host: Sequence[Vector]
) -> OnOneBoard:
    try:
        check_processor(interface, board)
        if not board.emulators:
            raise BoardError(f"{board.phrase} has no emulator")
        image = firmware(interface, board=board)
        board.emulator(next(iter(board.emulators))).command()
    except (BoardError, BuildError, InterfaceError) as error:
        return OnOneBoard(board, why=str(error))
    equal, steps, why, first = 0, 0, "", None
    prototype = BoardController(interface, url=board.url, firmware=image.path)
    with closing(prototype.fresh()) as running:
        try:
            for k, given in enumerate(inputs):
                tag = Tag(interface.period.tick(k))
                running.send(tag, given)
                answer = running.receive(tag, PATIENCE_S)
                if answer is None:
                    why = f"no answer to step {k} within {PATIENCE_S:g} s"
                    break
                steps += 1
                difference = _difference(interface, k, host[k], answer)
                equal += difference is None
                first = first or difference
        except ControllerError as error:
            why = str(error)
    return OnOneBoard(
        board, image, next(iter(board.emulators)), running.baud, steps, equal,
        tuple(running.cycles), tuple(running.exchange_ns), running.stack, why, first,
    )  # fmt: skip


def _difference(interface: Interface, step: int, host: Vector, board: Vector) -> Difference | None:
    for column, a, b in zip(interface.outputs.columns, host, board, strict=True):
        if a.tobytes() != b.tobytes():
            return Difference(step, column, float(a), float(b))
    return None

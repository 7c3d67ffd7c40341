"""Options and functions that the commands of ``rtsim sil`` share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from hitl.boards.description import BoardDescription
from hitl.boards.known import DEFAULT_BOARD, DEFAULT_URL, board_named
from hitl.building.build import COVERAGE, FLAGS, PLAIN, Build, build
from hitl.building.coverage import Coverage, CoverageError, measured
from hitl.controllers.sil import SilController
from hitl.worker.link import LINKS
from rtsim.cli.common import NO, tell
from rtsim.components.controller_task import FAILURE_POLICIES, LATE_POLICIES
from rtsim.components.latency import Fixed
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.net.keys import Keys
from rtsim.runs.progress import ProgressLine
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ControllerComponent

if TYPE_CHECKING:
    from rich.console import Console

    from hitl.comparison.conditions import ProgressWatch

_Function = TypeVar("_Function", bound=Callable[..., Any])


def names_a_board(function: _Function) -> _Function:
    """Replace ``{url}`` and ``{board}`` in a help text by the default board."""
    text = (function.__doc__ or "").replace("{url}", DEFAULT_URL)
    function.__doc__ = text.replace("{board}", DEFAULT_BOARD.name)
    return function


def chosen(name: str | None) -> BoardDescription:
    return DEFAULT_BOARD if name is None else board_named(name)


_SERVED = "@tcp://"
board_option = click.option(
    "--board", "board_name", default=None, metavar="NAME",
    help="Name of the board; an unknown name prints all names.  "
    f"[default: {DEFAULT_BOARD.name}]",
)  # fmt: skip
controllers_option = click.option(
    "-c",
    "--controller",
    "controllers",
    multiple=True,
    metavar="[NAME=]INTERFACE[@ENDPOINT]",
    help="Run the C code of INTERFACE in place of controller NAME, as in controller=pid.toml. If "
    "the scenario has only one controller, NAME= can be left out. To use the C code that 'rtsim "
    "sil serve' runs at an address, write pid.toml@tcp://HOST:PORT.",
)
keys_option = click.option(
    "--keys",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Client key file, needed if -c names an address tcp://HOST:PORT: the .client file that "
    "'rtsim sil serve --keys' wrote.",
)
build_option = click.option(
    "--build",
    "kind",
    type=click.Choice(list(FLAGS)),
    default=PLAIN,
    show_default=True,
    help="Build of the C code: plain measures execution times, sanitize finds undefined behaviour, "
    "coverage counts the lines that ran, debug is not optimised.",
)

link_option = click.option(
    "--link",
    type=click.Choice(LINKS),
    default=None,
    help="Link to the process of the C code: shm is shared memory, zmq is ZeroMQ. Both give the "
    "same recorded rows.  [default: shm on Linux; zmq elsewhere and for an address "
    "tcp://HOST:PORT]",
)

late_option = click.option(
    "--late",
    type=click.Choice(LATE_POLICIES),
    default=None,
    help="Policy for a late answer: 'hold' keeps using the last answer, 'fail' treats the "
    "controller as failed, 'stretch' stops simulated time until the answer arrives.  "
    "[default: the policy of the scenario]",
)
failure_option = click.option(
    "--failure",
    type=click.Choice(FAILURE_POLICIES),
    default=None,
    help="Policy for a failure of the controller: 'end' ends the run, 'hold' continues it with the "
    "last answer.  [default: the policy of the scenario]",
)
baud_option = click.option(
    "--baud", type=int, default=None,
    help=f"Bit rate of the serial line, bit/s.  [default: {DEFAULT_BOARD.line.baud}]",
)  # fmt: skip
SHOW, ERROR = "show", "error"
warnings_option = click.option(
    "--warnings",
    "strictness",
    type=click.Choice([SHOW, ERROR]),
    default=SHOW,
    show_default=True,
    help="Compiler warnings about your C code: 'show' prints them, 'error' ends with exit "
    "status 1.",
)

# A folder named "coverage" would replace the package "coverage", which numba imports.
coverage_option = click.option(
    "--coverage",
    "counted_into",
    type=click.Path(path_type=Path),
    default=Path("coverage-report"),
    show_default=True,
    metavar="FOLDER",
    help="Folder for the HTML pages that --build coverage writes.",
)


def write_new(folder: Path, contents: Mapping[str, bytes], remedy: str) -> list[Path]:
    """Write new files into ``folder``, and return their paths.

    If a file already exists, nothing is written, and ``ScenarioError`` is raised.
    """
    where = "this folder" if folder == Path() else str(folder)
    if there := [name for name in contents if (folder / name).exists()]:
        raise ScenarioError(f"{where} contains {', '.join(there)} already; {remedy}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            with (folder / name).open("xb") as file:
                file.write(content)
    except OSError as error:
        raise ScenarioError(f"cannot write into {where}: {error.strerror}") from None
    return [folder / name for name in contents]


def watch_of(line: ProgressLine) -> ProgressWatch:
    """Return an observer that shows the progress of a comparison on the terminal."""
    from hitl.comparison.conditions import ProgressWatch  # slow to load

    return ProgressWatch(
        lambda phase: line.say(f"{phase} …"), line.show, partial(line.count, "step")
    )


def refuse_no_latency(component: ControllerComponent, who: str, otherwise: str = "") -> None:
    """Raise :class:`ScenarioError` for a latency of 0.

    ``who`` names what needs time to answer. The error message suggests a latency, followed by
    ``otherwise``.
    """
    if isinstance(component.compute, Fixed) and component.compute.constant == (0,):
        period = component.period
        half = 0.005 if period is None else period.seconds / 2
        raise ScenarioError(
            f"{who} needs a compute latency > 0 s; give one, for example half the period: "
            f"--latency {half:g}{otherwise}"
        )


def refuse_warnings(said: Mapping[str, str], strictness: str, as_json: bool) -> None:
    """Exit with status 1 after compiler warnings, if ``--warnings error`` is given.

    ``said`` contains the compiler's output by controller.
    """
    warned = {name: text for name, text in said.items() if text}
    if strictness == ERROR and warned:
        text = "".join(warned.values()).rstrip()
        names = ", ".join(warned)
        tell(
            "Warnings", f"the compiler warns about {names} (--warnings error):\n{text}", as_json, NO
        )
        sys.exit(NO)


@dataclass
class Counting:
    """The coverage of a run; empty without coverage builds."""

    coverage: Coverage | None = None
    failed: str = ""
    """Why coverage could not be counted; "" if it was counted or not requested."""

    def to_json(self) -> dict[str, Any]:
        report = {"coverage": None if self.coverage is None else self.coverage.to_json()}
        return {**report, "no_coverage": self.failed} if self.failed else report

    def print(self, out: Console) -> None:
        if self.failed:
            out.print(f"no coverage: {self.failed}", soft_wrap=True, markup=False)
        elif self.coverage is not None:
            out.print(f"coverage: {self.coverage.in_words}", soft_wrap=True, markup=False)


@contextmanager
def counting(kind: str, builds: Sequence[Build], into: Path) -> Iterator[Counting]:
    """Context manager that counts the executed lines of coverage builds.

    If this is impossible, ``Counting.failed`` contains the reason. No error is raised, so that the
    result of the run is still reported.
    """
    out = Counting()
    if kind != COVERAGE:
        yield out
        return
    flown = False
    try:
        with measured(builds, into) as coverage:
            yield out
            flown = True
        out.coverage = coverage
    except CoverageError as error:
        if not flown:
            raise
        out.failed = str(error)


def in_c(reference: str, kind: str, keys: Path | None, link: str | None = None) -> SilController:
    """Return the controller of ``FILE.toml[:VARIANT]`` or ``FILE.toml@tcp://HOST:PORT``.

    For ``FILE.toml[:VARIANT]``, the C code is built on this machine. For
    ``FILE.toml@tcp://HOST:PORT``, the command ``rtsim sil serve`` runs the C code at this address.
    """
    interface, at, address = reference.partition(_SERVED)
    if not at:
        return SilController(build(reference, kind), link=link)
    if kind != PLAIN:
        raise ScenarioError(
            f"--build {kind} does not apply to {reference}, which is built on the machine that "
            f"serves it; on that machine, type: rtsim sil serve --build {kind}"
        )
    held = None if keys is None else Keys.load(keys)
    return SilController(interface, endpoint=f"{_SERVED[1:]}{address}", keys=held, link=link)


def parse_controllers(values: Sequence[str], scenario: Scenario) -> dict[str, str]:
    """Return the interface file for each controller to replace, by the controller's name.

    ``values`` are texts such as ``"controller=pid.toml"``. In a scenario with one controller, the
    name can be omitted. Raises ``ScenarioError`` for an unknown controller or a missing file.
    """
    known = list(scenario.of(ControllerComponent))
    if not known:
        raise ScenarioError(f"scenario {scenario.name} has no controller that C could replace")
    if not values:
        example = "pid.toml" if len(known) == 1 else f"{known[0]}=pid.toml"
        raise ScenarioError(
            f"no interface file is given; type: -c {example}   (controllers: {_list(known)})"
        )
    out: dict[str, str] = {}
    for value in values:
        name, reference = _split(value, known)
        if name in out:
            raise ScenarioError(f"-c {value}: controller {name} is given twice; leave out one -c")
        out[name] = reference
    return out


def _split(value: str, known: Sequence[str]) -> tuple[str, str]:
    name, equals, reference = value.partition("=")
    if not equals:
        if len(known) > 1:
            raise ScenarioError(
                f"-c {value} names no controller, and the scenario has {_list(known)}; type, for "
                f"example: -c {known[0]}={value}"
            )
        name, reference = known[0], value
    name, reference = name.strip(), reference.strip()
    if name not in known:
        raise UnknownName("controller", name, known, f"-c {value}")
    if not reference:
        raise ScenarioError(
            f"-c {value} names no interface file; type, for example: -c {name}=pid.toml"
        )
    return name, reference


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)

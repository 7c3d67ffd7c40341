"""What the commands of ``rtsim sil`` share: which C takes the place of which controller."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hitl.building.build import COVERAGE, FLAGS, PLAIN, Build, build
from hitl.building.coverage import Coverage, CoverageError, measured
from hitl.controllers.sil import SilController
from rtsim.cli.common import NO, tell
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.net.keys import Keys
from rtsim.scenario.controller_part import ControllerPart
from rtsim.scenario.scenario import Scenario

if TYPE_CHECKING:
    from rich.console import Console

_SERVED = "@tcp://"
controllers_option = click.option(
    "-c",
    "--controller",
    "controllers",
    multiple=True,
    metavar="[NAME=]INTERFACE[@ENDPOINT]",
    help="C that takes the place of NAME: controller=pid.toml, or pid.toml where there is one; "
    "pid.toml@tcp://HOST:PORT where 'rtsim sil serve' runs it.",
)
keys_option = click.option(
    "--keys",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The .client file that 'rtsim sil serve --keys' wrote, for an ENDPOINT.",
)
build_option = click.option(
    "--build",
    "kind",
    type=click.Choice(list(FLAGS)),
    default=PLAIN,
    show_default=True,
    help="sanitize finds undefined behaviour, coverage counts lines; timing is taken of plain.",
)

SHOW, ERROR = "show", "error"
warnings_option = click.option(
    "--warnings",
    "strictness",
    type=click.Choice([SHOW, ERROR]),
    default=SHOW,
    show_default=True,
    help="What the compiler warns of in your C: show it, or end with exit status 1.",
)

# A folder "coverage" would be imported as the package of that name, by numba of all.
coverage_option = click.option(
    "--coverage",
    "counted_into",
    type=click.Path(path_type=Path),
    default=Path("coverage-report"),
    show_default=True,
    metavar="FOLDER",
    help="Where --build coverage writes its pages.",
)


def refuse_warnings(said: Mapping[str, str], strictness: str, as_json: bool) -> None:
    """With ``--warnings error``, exit status 1 where a compiler warned of a controller."""
    warned = {name: text for name, text in said.items() if text}
    if strictness == ERROR and warned:
        text = "".join(warned.values()).rstrip()
        names = ", ".join(warned)
        tell("Warnings", f"the compiler warns of {names} (--warnings error):\n{text}", as_json)
        sys.exit(NO)


@dataclass
class Counting:
    """What was counted; nothing, for other builds than those of coverage."""

    coverage: Coverage | None = None
    failed: str = ""
    """Why there is no coverage, where it was asked for."""

    def to_json(self) -> dict[str, Any]:
        told = {"coverage": None if self.coverage is None else self.coverage.to_json()}
        return {**told, "no_coverage": self.failed} if self.failed else told

    def print(self, out: Console) -> None:
        if self.failed:
            out.print(f"no coverage: {self.failed}", soft_wrap=True, markup=False)
        elif self.coverage is not None:
            out.print(f"coverage: {self.coverage.in_words}", soft_wrap=True, markup=False)


@contextmanager
def counting(kind: str, builds: Sequence[Build], into: Path) -> Iterator[Counting]:
    """Count while the block lasts what runs of coverage builds.

    Where nothing could be counted the block's own result is still to be told, so that is no error.
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


def in_c(reference: str, kind: str, keys: Path | None) -> SilController:
    """``FILE.toml[:VARIANT]``, built here, or ``FILE.toml@tcp://HOST:PORT``, served there."""
    interface, at, address = reference.partition(_SERVED)
    if not at:
        return SilController(build(reference, kind))
    if kind != PLAIN:
        raise ScenarioError(
            f"{reference} is built where it is served; type there: rtsim sil serve --build {kind}"
        )
    held = None if keys is None else Keys.load(keys)
    return SilController(interface, endpoint=f"{_SERVED[1:]}{address}", keys=held)


def parse_controllers(values: Sequence[str], scenario: Scenario) -> dict[str, str]:
    """``("controller=pid.toml", ...)`` as part name to interface file.

    The name may be left out where the scenario has one controller.
    """
    known = list(scenario.of(ControllerPart))
    if not known:
        raise ScenarioError(f"scenario {scenario.name} has no controller whose place C could take")
    if not values:
        example = "pid.toml" if len(known) == 1 else f"{known[0]}=pid.toml"
        raise ScenarioError(f"which C is meant? type: -c {example}   (controllers: {_list(known)})")
    out: dict[str, str] = {}
    for value in values:
        name, reference = _split(value, known)
        if name in out:
            raise ScenarioError(f"-c {value}: {name} is given twice; leave one of them out")
        out[name] = reference
    return out


def _split(value: str, known: Sequence[str]) -> tuple[str, str]:
    name, equals, reference = value.partition("=")
    if not equals:
        if len(known) > 1:
            text = f"-c {value}: for which of {_list(known)}? type: -c {known[0]}={value}"
            raise ScenarioError(text)
        name, reference = known[0], value
    name, reference = name.strip(), reference.strip()
    if name not in known:
        raise UnknownName("controller", name, known, f"-c {value}")
    if not reference:
        raise ScenarioError(f"-c {value} names no file; type: -c {name}=pid.toml")
    return name, reference


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)

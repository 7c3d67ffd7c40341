"""Commands on interface files: ``rtsim sil init``, ``check``, ``header`` and ``build``."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import click

from hitl.boards import BoardError
from hitl.boards.known import board_named
from hitl.building.build import build as built
from hitl.building.c_code import MARK, header_text
from hitl.building.toolchain import BuildError, CannotBuild
from hitl.cli.common import (
    build_option,
    names_a_board,
    refuse_warnings,
    warnings_option,
    write_new,
)
from hitl.firmware.compiling import NoTools
from hitl.firmware.firmware import fit
from hitl.interface import InterfaceError, load_interface
from hitl.interface.targets import TARGETS
from hitl.results.columns import check_result, write
from rtsim.cli.common import FAILED, NO, json_option, reports_errors, show_result, tell

MOTOR = "motor"
EXAMPLES = {
    MOTOR: "starter",
    "processor": "examples/processor",
    "arduino": "examples/arduino",
    "reversing": "examples/reversing",
}
_NEXT = {
    MOTOR: "rtsim sil test scenario.py -c motor.toml",
    "processor": "rtsim sil test scenario.py:level -c level.toml",
    "arduino": "rtsim sil test scenario.py:room -c thermostat.toml",
    "reversing": "rtsim sil test scenario.py -c motor.toml",
}


def starter(example: str = MOTOR) -> dict[str, bytes]:
    """Return the files of an example by name."""
    folder = files("hitl").joinpath(*EXAMPLES[example].split("/"))
    found = sorted((f for f in folder.iterdir() if f.is_file()), key=lambda f: f.name)
    return {f.name: f.read_bytes() for f in found}


def write_starter(folder: Path, example: str = MOTOR) -> list[Path]:
    """Write the files of an example into ``folder``, and return their paths.

    If a file already exists, nothing is written, and ``ScenarioError`` is raised.
    """
    return write_new(folder, starter(example), f"give another folder: rtsim sil init {example}")


@click.command()
@click.argument("folder", default=".", type=click.Path(path_type=Path))
@click.option(
    "--example",
    type=click.Choice(list(EXAMPLES)),
    default=MOTOR,
    show_default=True,
    help="Example to write. motor: a speed controller with its tests (docs/sil.md). processor: a "
    "controller whose results differ between host and board (docs/pitl.md). reversing: a "
    "controller with a bug that a search finds (docs/counterexamples.md).",
)
@json_option
@reports_errors
def init(folder: Path, example: str, as_json: bool) -> None:
    """Write a working example into FOLDER.

    The default FOLDER is the current folder. Existing files are never overwritten.

    \b
    Examples:
      rtsim sil init
      rtsim sil init processor --example processor
    """
    written = write_starter(folder, example)
    if as_json:
        show_result({"files": [str(path) for path in written]})
        return
    for path in written:
        click.echo(str(path))
    into = "" if folder == Path() else f"cd {folder} && "
    click.echo(f"next: {into}{_NEXT[example]}")


# The commands ``rtsim sil header`` and ``rtsim sil check``.


@click.command()
@click.argument("interface")
@click.option(
    "-o", "--output", "path", type=click.Path(path_type=Path), metavar="FILE",
    help="File to write the header to; an existing header is overwritten.  [default: the terminal]",
)  # fmt: skip
@reports_errors
def header(interface: str, path: Path | None) -> None:
    """Write a C header for a controller.

    The header is for C code that exchanges inputs and outputs with the controller, such as
    firmware. The header contains the index of each value, a hash of all signals, and the sample
    period (s).

    \b
    Examples:
      rtsim sil header motor.toml
      rtsim sil header motor.toml -o motor_signals.h
    """
    loaded = load_interface(interface)
    if path is None:
        click.echo(header_text(loaded), nl=False)
        return
    check_result(path, MARK.encode(), "a header")
    write(path, header_text(loaded))
    click.echo(f"written: {path}")


@click.command()
@click.argument("interface")
@click.option(
    "--target", type=click.Choice(sorted(TARGETS)), default="host", show_default=True,
    help="Check that the controller fits the compiler, the types and the memory of this target.",
)  # fmt: skip
@click.option(
    "--board", "board_name", default=None, metavar="NAME",
    help="Check that the controller fits the compiler, the types and the memory of this board, "
    "instead of a target. An unknown name lists all boards.  [default: none]",
)  # fmt: skip
@warnings_option
@json_option
@reports_errors
@names_a_board
def check(
    interface: str, target: str, board_name: str | None, strictness: str, as_json: bool
) -> None:
    """Check whether a controller fits a processor or a board.

    The command compiles and links the controller for this processor. Exit status: 0 if the
    controller fits, 1 if it does not fit, 2 if the check is impossible, for example without a
    compiler. The command lists what was checked and what was not checked.

    \b
    Examples:
      rtsim sil check motor.toml
      rtsim sil check motor.toml:float --target avr
      rtsim sil check motor.toml:float --board {board}
    """
    board = None if board_name is None else board_named(board_name)
    where = target if board is None else board.name
    loaded = load_interface(interface)
    try:
        found = fit(loaded, target, board=board)
    except (CannotBuild, NoTools):
        raise
    except (InterfaceError, BuildError, BoardError) as error:
        tell(type(error).__name__, str(error), as_json, NO)
        sys.exit(NO)
    refuse_warnings({loaded.name: found.warnings}, strictness, as_json)
    sizes = {
        "inputs": loaded.inputs.size,
        "outputs": loaded.outputs.size,
        "parameters": loaded.parameters.size,
    }
    if as_json:
        schema = f"{loaded.schema:016x}"
        report = {"name": loaded.name, "target": target, "schema": schema, **sizes}
        if board is not None:
            report |= {"target": board.processor, "board": board.name}
        report |= {"fits": found.decided or None, "checked": list(found.checked)}
        report |= {"not_checked": found.unchecked, "warnings": found.warnings}
        status = 0 if found.decided else FAILED
        show_result(report, status, f"not checked: {found.unchecked}")
        sys.exit(status)
    click.echo(found.warnings, nl=False, err=True)
    if found.decided:
        listed = ", ".join(f"{count} {name}" for name, count in sizes.items())
        click.echo(f"{loaded.name} fits {where}: {listed}")
        for text in found.checked:
            click.echo(text)
    else:
        click.echo(f"could not decide whether {loaded.name} fits {where}")
        click.echo(f"checked: {'; '.join(found.checked)}")
        click.echo(f"not checked: {found.unchecked}")
    sys.exit(0 if found.decided else FAILED)


# The command ``rtsim sil build``, which compiles the worker of an interface file.


@click.command()
@click.argument("interface")
@build_option
@warnings_option
@json_option
@reports_errors
def build(interface: str, kind: str, strictness: str, as_json: bool) -> None:
    """Compile the C code of a controller into a worker.

    INTERFACE is FILE.toml or FILE.toml:VARIANT. A worker is a program that runs the controller in a
    separate process. Compiler warnings about the C code are printed on stderr. Exit status: 0 if
    the worker was built, 1 after a compiler warning with '--warnings error', 2 after an error.

    \b
    Examples:
      rtsim sil build motor.toml
      rtsim sil build motor.toml:float --build sanitize
    """
    made = built(interface, kind)
    refuse_warnings({made.interface.name: made.warnings}, strictness, as_json)
    if as_json:
        show_result(
            {
                "program": str(made.program),
                "compiler": made.compiler,
                "build": kind,
                "warnings": made.warnings,
            }
        )
        return
    click.echo(made.warnings, nl=False, err=True)
    click.echo(f"{made.program}  ({kind}, {made.compiler})")

"""``rtsim sil header`` and ``rtsim sil check``: what an interface file says, and if it fits."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from hitl.boards import BoardError
from hitl.building.header import MARK, header_text
from hitl.building.toolchain import BuildError, CannotBuild
from hitl.cli.common import refuse_warnings, warnings_option
from hitl.firmware.compiling import NoTools
from hitl.firmware.fitting import fit
from hitl.interface import InterfaceError, load_interface
from hitl.interface.targets import TARGETS
from hitl.results.files import check_result, write
from rtsim.cli.common import FAILED, NO, json_option, reports_errors, show_json, tell


@click.command()
@click.argument("interface")
@click.option(
    "-o", "--output", "path", type=click.Path(path_type=Path), metavar="FILE",
    help="Where to write it; an older one is written over.  [default: the terminal]",
)  # fmt: skip
@reports_errors
def header(interface: str, path: Path | None) -> None:
    """Write the C header of INTERFACE: columns of each vector by name, schema and period."""
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
    help="What the controller has to fit: its compiler, and the memory of its board.",
)  # fmt: skip
@warnings_option
@json_option
@reports_errors
def check(interface: str, target: str, strictness: str, as_json: bool) -> None:
    """Compile and link INTERFACE for a target, and say whether it fits.

    Exit status 0 where it fits, 1 where it does not, 2 where that could not be decided, such as
    without the compiler of the target: then the command says what it has checked and what not.
    """
    loaded = load_interface(interface)
    try:
        found = fit(loaded, target)
    except (CannotBuild, NoTools):
        raise
    except (InterfaceError, BuildError, BoardError) as error:
        tell(type(error).__name__, str(error), as_json)
        sys.exit(NO)
    refuse_warnings({loaded.name: found.warnings}, strictness, as_json)
    sizes = {
        "inputs": loaded.inputs.size,
        "outputs": loaded.outputs.size,
        "parameters": loaded.parameters.size,
    }
    if as_json:
        schema = f"{loaded.schema:016x}"
        told = {"name": loaded.name, "target": target, "schema": schema, **sizes}
        told |= {"fits": found.decided or None, "checked": list(found.checked)}
        told |= {"not_checked": found.unchecked, "warnings": found.warnings}
        show_json(told)
        sys.exit(0 if found.decided else FAILED)
    click.echo(found.warnings, nl=False, err=True)
    if found.decided:
        listed = ", ".join(f"{count} {name}" for name, count in sizes.items())
        click.echo(f"{loaded.name} fits {target}: {listed}")
        for text in found.checked:
            click.echo(text)
    else:
        click.echo(f"{loaded.name}: it could not be decided whether it fits {target}")
        click.echo(f"checked: {'; '.join(found.checked)}")
        click.echo(f"not checked: {found.unchecked}")
    sys.exit(0 if found.decided else FAILED)

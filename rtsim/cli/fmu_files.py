"""``rtsim fmu info``, ``check`` and ``run``: FMUs of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtsim.cli.common import FAILED, NO, json_option, reports_errors, show_result
from rtsim.cli.terminal import Column, console, print_long_table
from rtsim.core.errors import RtsimError
from rtsim.record.events import PLANT_ENDED

if TYPE_CHECKING:
    from rtsim.fmi.reading import Description, Variable

_COLUMNS = (
    Column("signal"), Column("variable"), Column("causality"), Column("type"), Column("unit"),
    Column("start", number=True), Column("description", fold=True, drop=1),
)  # fmt: skip
_SHOWN = ("input", "output", "parameter")
_CHECK_STEPS = 10
_fmu = click.argument("path", metavar="FILE.fmu", type=click.Path(path_type=Path))


@click.command()
@_fmu
@click.option("--all", "every", is_flag=True, help="Also list local variables and constants.")
@json_option
@reports_errors
def info(path: Path, every: bool, as_json: bool) -> None:
    """Print the capabilities and variables of an FMU, without executing its code.

    \b
    Examples:
      rtsim fmu info tank.fmu
      rtsim fmu info tank.fmu --all --json
    """
    from rtsim.fmi.reading import Description

    found = Description(path)
    facts = _facts(found)
    shown = [v for v in found.variables.values() if every or v.causality in _SHOWN]
    rows = [_row(v) for v in shown]
    if as_json:
        names = [column.name for column in _COLUMNS]
        show_result({**facts, "variables": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    for name, value in facts.items():
        click.echo(f"{name}: {value}")
    print_long_table(console(), "", _COLUMNS, rows)
    if left := len(found.variables) - len(shown):
        click.echo(f"{left} more variables: --all")


def _facts(found: Description) -> dict[str, Any]:
    binaries = found.folder / "binaries"
    built_for = sorted(p.name for p in binaries.glob("*")) if binaries.is_dir() else []
    out: dict[str, Any] = {
        "model": found.xml.modelName,
        "FMI": found.xml.fmiVersion,
        "tool": found.xml.generationTool or "unknown",
        "built for": ", ".join(built_for) or "no computer",
    }
    for kind in found.kinds:
        _, part = found.part(kind)
        can = {
            "returns to an earlier state": part.canGetAndSetFMUstate,
            "saves its state": part.canSerializeFMUstate,
        }
        if kind == found.kinds[0] and hasattr(part, "canHandleVariableCommunicationStepSize"):
            can["takes steps of any length"] = part.canHandleVariableCommunicationStepSize
        out[kind] = ", ".join(f"{name}: {'yes' if has else 'no'}" for name, has in can.items())
    return out


def _row(variable: Variable) -> list[str]:
    signal, start = variable.signal, variable.start
    numbers = " ".join(f"{x:g}" for x in start) if isinstance(start, tuple) else start or ""
    shape = f"[{','.join(map(str, signal.shape))}]" if signal.shape else ""
    items = f" ({', '.join(variable.items)})" if variable.items else ""
    return [
        signal.name, variable.name, variable.causality, f"{variable.type}{shape}{items}",
        signal.unit, numbers, signal.description,
    ]  # fmt: skip


@click.command()
@_fmu
@json_option
@reports_errors
def check(path: Path, as_json: bool) -> None:
    """Check in a separate process that rtsim can read and run an FMU.

    Each kind of FMI that the FMU supports takes some steps twice, and the results must be equal. If
    the FMU can save its state, the steps are also repeated from a saved state. The command names
    the checks that the FMU does not permit.

    Exit status: 0 if all checks passed, 1 if a check failed, 2 if this computer cannot run the FMU.

    \b
    Example:
      rtsim fmu check tank.fmu
    """
    from rtsim.fmi.reading import Description

    found = Description(path)
    results: list[dict[str, Any]] = []
    left: list[str] = []
    if found.xml.scheduledExecution is not None:
        left.append("scheduled execution: rtsim does not support this kind")
    for kind in found.kinds:
        found.check_platform(found.part(kind)[1].modelIdentifier)
    for kind in found.kinds:
        results += _checked(path, kind, left)
    failed = [one for one in results if not one["passed"]]
    status = NO if failed else 0 if results else FAILED
    why = "; ".join(f"{one['check']}: {one['why']}" for one in failed) or None
    if as_json:
        why = why if results else "nothing was checked"
        show_result({"checks": results, "not_checked": left}, status, why)
    else:
        for one in results:
            why = "" if one["passed"] else f": {one['why']}"
            verdict = "passed" if one["passed"] else "FAILED"
            click.echo(f"{verdict}  {one['check']}{one['more']}{why}")
        for sentence in left:
            click.echo(f"not checked  {sentence}")
        if not results:
            click.echo("nothing was checked, because the FMU supports scheduled execution only")
    if status:
        raise SystemExit(status)


_RESET, _SAVED = "the same after a reset", "the same from a saved state"


def _checked(path: Path, kind: str, left: list[str]) -> list[dict[str, Any]]:
    """Return the checks of one kind of FMI; append what cannot be checked to ``left``."""
    import numpy as np

    from rtsim.fmi.scenario import maker
    from rtsim.runs.prepared import prepare
    from rtsim.runs.stepping import Simulation

    out: list[dict[str, Any]] = []

    def note(check: str, passed: bool, why: str = "", more: str = "") -> None:
        name = f"{kind}: {check}"
        out.append({"check": name, "passed": passed, "why": why, "more": more and f" ({more})"})

    scenario = maker(path)(kind=kind)
    (plant,) = scenario.components.values()
    until = float(plant.step.ns * _CHECK_STEPS) / 1e9  # type: ignore[attr-defined]
    scenario = maker(path)(kind=kind, until=until, step=until / _CHECK_STEPS)
    try:
        prepared = prepare(scenario)
        run = prepared.run()
        first = run.recording()
        more = f"{_CHECK_STEPS} steps, to {until:g} s"
        if run.reason == PLANT_ENDED:
            until = run.ended.seconds
            more = f"the FMU ended its simulation at {until:g} s"
        note("runs", True, more=more)
    except RtsimError as error:
        note("runs", False, str(error))
        return out
    if not first.names:
        left += [f"{kind}: {check}: the FMU has no signal" for check in (_RESET, _SAVED)]
        return out
    try:
        again = prepared.run().recording()
        note(_RESET, again.digest() == first.digest(), "the results differ")
    except RtsimError as error:
        note(_RESET, False, str(error))
    if not plant.source.interface.saves:  # type: ignore[attr-defined]
        left.append(f"{kind}: {_SAVED}: the FMU cannot save its state")
    else:
        try:
            with Simulation(scenario) as simulation:
                simulation.advance(until / 2)
                kept = simulation.save()
                simulation.advance(until=until)
                simulation.restore(kept)
                simulation.advance(until=until)
                last = simulation.result().recording()
            same = all(
                np.array_equal(last[n][-1], first[n][-1], equal_nan=True) for n in first.names
            )
            note(_SAVED, same, "the results differ")
        except RtsimError as error:
            note(_SAVED, False, str(error))
    return out


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
)
@click.argument("path", metavar="FILE.fmu")
@click.pass_context
def run(context: click.Context, path: str) -> None:
    """Run an FMU with the start values of its inputs, like 'rtsim run FILE.fmu'.

    All options of 'rtsim run' apply. Set arguments and values with --set.

    \b
    Examples:
      rtsim fmu run tank.fmu -o tank.mcap
      rtsim fmu run tank.fmu --set kind=model-exchange --set tank.k=2 --until 5
    """
    from rtsim.cli.run import run as run_command

    run_command.main([path, *context.args], prog_name="rtsim run", standalone_mode=False)

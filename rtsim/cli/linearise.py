"""``rtsim linearise``: poles of a plant, and the margins of its loops."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.completion import scenario_names, setting_names
from rtsim.cli.settings import parse_settings
from rtsim.cli.tables import Column, console, print_table
from rtsim.core.errors import ScenarioError

if TYPE_CHECKING:
    from rtsim.linear.report import LinearReport

_POLES = (
    Column("pole", number=True),
    Column("frequency (rad/s)", number=True),
    Column("damping", number=True),
)
_LOOPS = (
    Column("loop cut at"),
    Column("gain margin", number=True),
    Column("phase margin", number=True, drop=1),
    Column("delay margin", number=True),
    Column("at (rad/s)", number=True, drop=2),
)


@click.command()
@click.argument("scenario", shell_complete=scenario_names)
@click.option("--plant", default="", help="Plant to linearise.  [default: the only plant]")
@click.option("--at", "time", default="0", metavar="T", help="Operating point: time of a run, s.")
@click.option(
    "--from",
    "start",
    default="",
    metavar="COMPONENT[.SIGNAL]",
    help="Signal at which the loop is cut.  [default: each message that the plant reads]",
)
@click.option(
    "--to",
    "end",
    default="",
    metavar="COMPONENT.SIGNAL",
    help="Output of the open loop that --from begins; then there are no margins.",
)
@click.option(
    "--slow",
    default=0.0,
    metavar="RAD/S",
    help="Disregard poles below this frequency in delay margins, such as a drifting position.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set an argument of the scenario or a value of a component; repeatable.",
    shell_complete=setting_names,
)
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path),
    help="HTML page with Bode and Nichols plots to write.",
)
@click.option("--plain", is_flag=True, help="Run the equations as plain Python.")
@json_option
@reports_errors
def linearise(
    scenario: str,
    plant: str,
    time: str,
    start: str,
    end: str,
    slow: float,
    settings: tuple[str, ...],
    path: Path | None,
    plain: bool,
    as_json: bool,
) -> None:
    """Print poles and damping of a plant, and the gain and delay margins of its loops.

    The operating point is that of a run at the time T. Margins are those of the sampled loop with
    all its latencies, cut at one signal while the other loops stay closed (docs/linear.md).

    \b
    Examples:
      rtsim linearise unstable
      rtsim linearise f16 --set autopilot_on=false --slow 0.05 -o loops.html
    """
    from rtsim.linear.report import linear_report
    from rtsim.scenario.loading import load_scenario

    loaded = load_scenario(scenario, parse_settings(settings))
    report = linear_report(
        loaded, plant=plant, start=start, end=end, time=time, slow=slow, compile=not plain
    )
    if path is not None:
        from rtsim.linear.pages import Table, write_page

        if not report.scalar_loops:
            raise ScenarioError(
                f"-o {path}: there is no open loop with one signal to draw; give --from SIGNAL"
            )
        title = f"{scenario}: {report.plant_name} at {time} s"
        margins = Table([one.name for one in _LOOPS], [_loop(one) for one in report.loops])
        poles = Table([one.name for one in _POLES], [_pole(one) for one in report.plant.poles])
        plant_loops = report.plant, report.scalar_loops
        write_page(path, title, _about(report), *plant_loops, margins, poles, slow)
    if as_json:
        show_result({**report.to_json(), "page": None if path is None else str(path)})
        return
    _print(report)
    if path is not None:
        click.echo(f"page: {path}")


def _print(report: LinearReport) -> None:
    out = console()
    plant = report.plant
    size = f"{len(plant.a)} states, {plant.b.shape[1]} inputs, {len(plant.c)} outputs"
    click.echo(f"{report.plant_name} at {report.time:g} s: {size}; derivatives by {plant.method}")
    print_table(out, "Poles", _POLES, [_pole(p) for p in plant.poles])
    if report.system is not None:
        click.echo(f"open loop from {report.system.name}, sampled every {report.system.period}")
        print_table(out, "Poles", _POLES, [_pole(p) for p in report.system.poles])
    if report.loops:
        click.echo(f"loops with all latencies, sampled every {report.loops[0].period}")
        print_table(out, "Margins", _LOOPS, [_loop(one) for one in report.loops])
    for note in report.notes:
        click.echo(f"note: {note}")


def _about(report: LinearReport) -> str:
    return "; ".join((f"derivatives: {report.plant.method}", *report.notes))


def _pole(pole: Any) -> tuple[str, ...]:
    value = pole.value
    shown = f"{value.real:.6g}"
    if value.imag:
        shown += f" ± {abs(value.imag):.6g}i"
    return shown, _number(pole.frequency), _number(pole.damping)


def _loop(one: Any) -> tuple[str, ...]:
    margins = one.margins
    if margins is None:
        gain = phase = "-"
    elif not margins.stable:
        gain = phase = "unstable"
    else:
        gain = f"{_number(margins.gain_low)} to {_number(margins.gain_high)}"
        phase = f"{margins.phase_deg:.2f} deg" if math.isfinite(margins.phase) else "none"
        if margins.searched_above and math.isinf(margins.phase):
            phase = f"none above {margins.searched_above:.3g} rad/s"
    delay, at = "-", "-"
    if one.delay_problem:
        delay = one.delay_problem
    elif one.approximate is not None:
        delay, at = f"about {one.approximate * 1e3:.4g} ms", _number(margins.crossover)
    elif one.delay is not None:
        delay, at = f"{one.delay.seconds * 1e3:.4f} ms", _number(one.delay.frequency)
    else:
        delay = f"none found up to {one.delay_searched:g} s"
    return one.name, gain, phase, delay, at


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.6g}"

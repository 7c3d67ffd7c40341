"""Commands that describe scenarios without running them: pictures, layouts, poles and a list."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtsim.cli.common import json_option, reports_errors, show_json, show_result
from rtsim.cli.options import option, parse_settings, scenario_names
from rtsim.cli.terminal import Column, console, print_table
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.extras import installed
from rtsim.record.output_files import write_whole
from rtsim.record.reports.drawing import Drawing, check_suffix
from rtsim.scenario.loading import find_maker, known_scenarios

if TYPE_CHECKING:
    from rtsim.linear.report import LinearReport, TimingReport


@click.command()
@click.argument("scenario", shell_complete=scenario_names)
@option("--set")
@option(
    "--output",
    help="File to write: .svg, .dot (Graphviz) or .mmd (Mermaid).  [default: print Mermaid text]",
)
@option("--force")
@json_option
@reports_errors
def draw(
    scenario: str, settings: tuple[str, ...], path: Path | None, force: bool, as_json: bool
) -> None:
    """Draw the components of SCENARIO and the messages between them, without running SCENARIO.

    SCENARIO can also be a recording (.mcap). A box shows the step or the period of a component. An
    arrow shows the signals of a message and the latency of the message. Dashed arrows are events.

    \b
    Examples:
      rtsim draw f16 -o f16.svg
      rtsim draw runs/f16-001.mcap -o f16.svg
      rtsim draw cart.py --set delay=0.2
    """
    if path is not None:
        check_suffix(path)
        if path.is_file() and not force:
            raise RecordingError(f"{path} exists; give another -o PATH, or --force to overwrite it")
    drawing = _drawing(scenario, settings)
    if path is not None:
        drawing.save(path)
    if as_json:
        where = None if path is None else str(path)
        show_result({"drawing": where, "mermaid": drawing.mermaid})
    elif path is None:
        click.echo(drawing.mermaid, nl=False)
    else:
        click.echo(f"drawing: {path}")


def _drawing(scenario: str, settings: tuple[str, ...]) -> Drawing:
    if not scenario.endswith(".mcap"):
        from rtsim.scenario.loading import load_scenario

        return load_scenario(scenario, parse_settings(settings)).draw()
    from rtsim.record.reading import Recording
    from rtsim.record.reports.drawing import drawn

    if settings:
        raise ScenarioError(f"--set: {scenario} is a recording, whose values are fixed")
    return drawn(Recording.open(Path(scenario)).header.get("scenario"))


@click.command()
@click.argument("scenario", shell_complete=scenario_names)
@option(
    "--output",
    required=True,
    help="File to write: .xml for PlotJuggler, .json for Foxglove.",
)
@option("--set")
@option("--force")
@reports_errors
def layout(scenario: str, path: Path, settings: tuple[str, ...], force: bool) -> None:
    """Write a layout of PlotJuggler or Foxglove that shows the views of SCENARIO.

    \b
    Examples:
      rtsim layout f16 -o f16.xml
      rtsim layout cart.py -o cart.json
    """
    from rtsim.gateway.layouts import FORMATS
    from rtsim.scenario.loading import load_scenario

    make = FORMATS.get(path.suffix)
    if make is None:
        raise ScenarioError(
            f"{path} has the suffix {path.suffix or 'none'}; give -o FILE.xml for PlotJuggler, or "
            "-o FILE.json for Foxglove"
        )
    if path.is_file() and not force:
        raise RecordingError(f"{path} exists; give another -o PATH, or --force to overwrite it")
    text = make(load_scenario(scenario, parse_settings(settings)))
    try:
        write_whole(path, text)
    except OSError as error:
        raise RecordingError(f"cannot write {path}: {error.strerror}") from error
    click.echo(f"layout: {path}")


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
_COST = (Column("mean square"), Column("cost", number=True))


@click.command()
@click.argument("scenario", shell_complete=scenario_names)
@click.option("--plant", default="", help="Plant to linearise.  [default: the only plant]")
@click.option("--at", "time", default="0", metavar="T", help="Operating point: time of a run, s.")
@click.option(
    "--from",
    "start",
    default="",
    metavar="COMPONENT[.SIGNAL]",
    help="Signal at which the loop is opened.  [default: each message that the plant reads]",
)
@click.option(
    "--to",
    "end",
    default="",
    metavar="COMPONENT.SIGNAL",
    help="End of the open loop that begins at the signal --from. With --to, the command prints "
    "the poles of this open loop and no margins.",
)
@click.option(
    "--slow",
    default=0.0,
    metavar="RAD/S",
    help="For delay margins, disregard poles below this frequency, such as the pole of a drifting "
    "position.",
)
@click.option(
    "--cost",
    "weights",
    multiple=True,
    metavar="COMPONENT.SIGNAL=WEIGHT",
    help="Weight of the mean square of a signal; can be repeated. The command then prints the cost "
    "of timing for the noise and the latencies of the scenario, and the jitter margin.",
)
@option("--set")
@option(
    "--output",
    help="Write Bode and Nichols plots to this HTML page.",
)
@option("--plain", help="Run the equations as plain Python.")
@json_option
@reports_errors
def linearise(
    scenario: str,
    plant: str,
    time: str,
    start: str,
    end: str,
    slow: float,
    weights: tuple[str, ...],
    settings: tuple[str, ...],
    path: Path | None,
    plain: bool,
    as_json: bool,
) -> None:
    """Print poles and damping of a plant, and the gain and delay margins of its control loops.

    The plant is linearised at its state at the time T of a run. The margins take the sampling and
    all latencies into account. Each margin is computed with the loop opened at one signal, while
    all other loops stay closed (docs/linear.md).

    \b
    Examples:
      rtsim linearise unstable
      rtsim linearise f16 --set autopilot_on=false --slow 0.05 -o loops.html
      rtsim linearise servo.py --cost servo.angle=1 --cost pd.voltage=0.1
    """
    from rtsim.linear.report import linear_report
    from rtsim.scenario.loading import load_scenario

    if path is not None:
        from rtsim.linear.pages import Table, write_page

        installed("scipy", "scipy", f"-o {path}")
    loaded = load_scenario(scenario, parse_settings(settings))
    report = linear_report(
        loaded, plant=plant, start=start, end=end, time=time, slow=slow,
        cost=_weights(weights), compile=not plain,
    )  # fmt: skip
    if path is not None:
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
    if report.timing is not None:
        _print_timing(report.timing)
    for note in report.notes:
        click.echo(f"note: {note}")


def _print_timing(timing: TimingReport) -> None:
    loop, found, jitter = timing.loop, timing.cost, timing.jitter
    click.echo(f"latency {loop.latency_text}, period {1e3 * loop.period:g} ms")
    if not found.stable:
        click.echo("not mean-square stable: the cost is infinite")
    else:
        rows = [(name, _number(part)) for name, part in found.parts.items()]
        rows += [
            ("sum", _number(found.cost)),
            ("of the sum, by disturbance", _number(found.from_disturbance)),
            ("of the sum, by measurement noise", _number(found.from_measurement)),
        ]
        print_table(console(), "Cost of timing", _COST, rows)
    if jitter is None:
        click.echo("jitter margin: none, the loop is unstable without jitter")
    else:
        click.echo(
            f"jitter margin: {1e3 * jitter.seconds:.4f} ms above a latency of "
            f"{1e3 * jitter.latency:g} ms"
        )


def _weights(given: tuple[str, ...]) -> dict[str, float]:
    out = {}
    for one in given:
        name, _, weight = one.partition("=")
        try:
            out[name] = float(weight)
        except ValueError:
            raise ScenarioError(
                f"--cost {one}: give COMPONENT.SIGNAL=WEIGHT, for example --cost cart.x=1"
            ) from None
    return out


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


@click.command()
@json_option
@reports_errors
def scenarios(as_json: bool) -> None:
    """List the scenarios that can be run by name, with their arguments and defaults.

    \b
    Examples:
      rtsim scenarios
      rtsim scenarios --json
    """
    rows = []
    for name in sorted(known_scenarios()):
        maker = find_maker(name)
        arguments = {p.name: p.default for p in inspect.signature(maker).parameters.values()}
        about = (inspect.getdoc(maker) or "").partition("\n")[0]
        rows.append({"name": name, "about": about, "arguments": arguments})
    if as_json:
        show_json(rows)
        return
    columns = (
        Column("name"),
        Column("about", fold=True),
        Column("arguments: --set NAME=VALUE", fold=True),
    )
    print_table(console(), "Scenarios", columns, [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    arguments = " ".join(f"{k}={v}" for k, v in row["arguments"].items())
    return row["name"], row["about"].replace("``", ""), arguments

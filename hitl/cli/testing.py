"""``rtsim sil test``: the C held against its design, step by step and in the loop."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import click

from hitl.cli.common import (
    Counting,
    build_option,
    controllers_option,
    counting,
    coverage_option,
    in_c,
    keys_option,
    parse_controllers,
)
from hitl.comparison.back_to_back import BackToBack, Watch, back_to_back
from hitl.controllers.sil import SilController
from hitl.results.files import check_result
from hitl.results.table import Tables
from rtsim.cli.common import FAILED, NO, json_option, reports_errors, show_json
from rtsim.cli.flight import open_recorder, parse_settings
from rtsim.cli.interrupts import sigterm_interrupts
from rtsim.cli.latency import Given, allowed, latency_option, parse_latencies, print_latencies
from rtsim.cli.progress import ProgressLine
from rtsim.cli.recordings import tolerances
from rtsim.cli.tables import console
from rtsim.clock import stopwatch
from rtsim.compiling import announced
from rtsim.errors import ScenarioError
from rtsim.loading import load_scenario
from rtsim.record.verdict import Tolerance

_path = click.Path(path_type=Path)
_EVERY_NS = 200_000_000


@click.command()
@click.argument("scenario")
@controllers_option
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="f16.cg=0.3, case=15")
@click.option("--seed", default=0, show_default=True, help="Seed of every random stream.")
@click.option("--until", default=None, help="Simulated seconds; default: the scenario's own.")
@latency_option
@click.option(
    "--pace", default="max", show_default=True, help="Of the flight with the C; 1.0 is real time."
)
@build_option
@coverage_option
@keys_option
@click.option("--abs", "absolute", type=float, help="Absolute tolerance of every signal.")
@click.option("--rel", "relative", type=float, help="Relative tolerance of every signal.")
@click.option(
    "--tolerance", "--tol", "single", multiple=True, metavar="NAME=ABS[,REL]",
    help="For some signals: force=1e-6, 'plant.*=0,1e-9'.",
)  # fmt: skip
@click.option("--recording", type=_path, help="Inputs of the open loop, instead of the design's.")
@click.option("--open-only", is_flag=True, help="Step by step only; nothing flies with the C.")
@click.option("--junit", type=_path, help="JUnit XML to write.")
@click.option("--html", type=_path, help="Report to write, one page with everything in it.")
@click.option("-o", "--record", "path", type=_path, help="Recording of the flight with the C.")
@click.option("--force", is_flag=True, help="Write over an older recording.")
@json_option
@reports_errors
def test(
    scenario: str,
    controllers: tuple[str, ...],
    settings: tuple[str, ...],
    seed: int,
    until: str | None,
    latencies: tuple[str, ...],
    pace: str,
    kind: str,
    counted_into: Path,
    keys: Path | None,
    absolute: float | None,
    relative: float | None,
    single: tuple[str, ...],
    recording: Path | None,
    open_only: bool,
    junit: Path | None,
    html: Path | None,
    path: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Hold the C of a controller against its design in SCENARIO; exit 1 where it differs.

    The design flies first.  What it was given goes through both, step by step; then the same
    scenario flies with the C in the loop.  A value passes within max(ABS, REL*|design|); without
    tolerances the type of each output decides.
    """
    if seed < 0:
        raise ScenarioError(f"--seed {seed}; give a whole number >= 0")
    if open_only and path is not None:
        raise ScenarioError(f"--open-only flies nothing that -o {path} could record")
    rules = _rules(absolute, relative, single)
    writers = _writers(junit, html)
    line = ProgressLine(scenario, enabled=sys.stderr.isatty() and not as_json)
    with sigterm_interrupts(), closing(line), ExitStack() as stack, announced(line.compiling):
        loaded = load_scenario(scenario, parse_settings(settings))
        built: dict[str, SilController] = {}
        given = parse_controllers(controllers, loaded)
        times = parse_latencies(latencies, list(given))
        for name, interface in given.items():
            line.say(f"building {interface} ({kind}) …")
            built[name] = in_c(interface, kind, keys)
        recorder = None
        if path is not None:
            recorder = stack.enter_context(open_recorder(path, loaded.name, force))
        with counting(kind, [c.build for c in built.values()], counted_into) as counted:
            result = back_to_back(
                loaded,
                built,
                pace=pace,
                latency=allowed(times),
                until=until,
                seed=seed,
                tolerances=rules,
                recording=recording,
                closed=not open_only,
                recorder=recorder,
                watch=_watch(line),
            )
        for file, write in writers.items():
            line.say(f"writing {file} …")
            write(result, file)
    _show(result, [*writers, *([path] if path else [])], times, counted, as_json)
    sys.exit((FAILED if counted.failed else 0) if result.ok else NO)


def _rules(
    absolute: float | None, relative: float | None, single: tuple[str, ...]
) -> dict[str, Tolerance | tuple[float, float]]:
    """As ``rtsim compare`` reads them; ``--abs 0`` asks for equal bits."""
    out: dict[str, Tolerance | tuple[float, float]] = {}
    if absolute is not None or relative is not None:
        out["*"] = Tolerance(absolute or 0.0, relative or 0.0)
    return {**out, **tolerances(0.0, 0.0, single)}


def _writers(
    junit: Path | None, html: Path | None
) -> dict[Path, Callable[[BackToBack, Path], None]]:
    """What writes which file; refused now where that will not be possible."""
    out: dict[Path, Callable[[BackToBack, Path], None]] = {}
    if junit is not None:
        from hitl.results.junit import write_junit

        check_result(junit, b"<testsuites", "a JUnit file")
        out[junit] = write_junit
    if html is not None:
        from hitl.results.page import MARK, write_page

        check_result(html, MARK.encode(), "a report")
        out[html] = write_page
    return out


def _watch(line: ProgressLine) -> Watch:
    """Told on the terminal; steps five times a second."""
    told = [0]

    def stepped(step: int, steps: int) -> None:
        now = stopwatch()
        if now >= told[0]:
            told[0] = now + _EVERY_NS
            line.say(f"step {step} / {steps}")

    return Watch(lambda stage: line.say(f"{stage} …"), line.show, stepped)


def _show(
    result: BackToBack, files: list[Path], times: Given, counted: Counting, as_json: bool
) -> None:
    if as_json:
        show_json({**result.to_json(), "files": [str(f) for f in files], **counted.to_json()})
        return
    out = console()
    out.print(Tables(result), crop=False)
    for file in files:
        out.print(f"written: {file}", soft_wrap=True)
    print_latencies(out, times)
    counted.print(out)
    out.print(result.in_words.splitlines()[0], soft_wrap=True)

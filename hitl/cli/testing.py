"""The command ``rtsim sil test``: compare C code with its reference model."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import click

from hitl.building.build import COVERAGE
from hitl.cli.common import (
    Counting,
    build_option,
    controllers_option,
    counting,
    coverage_option,
    in_c,
    keys_option,
    link_option,
    parse_controllers,
    refuse_warnings,
    warnings_option,
)
from hitl.cli.comparing import ComparisonOptions, comparison_options, watch_of
from hitl.comparison.back_to_back import BackToBack, back_to_back
from hitl.controllers.sil import SilController
from hitl.results.faults import faults_to_json
from hitl.results.table import Tables
from hitl.stimuli.errors import StimuliError
from hitl.stimuli.file import Stimuli, stimuli_of
from rtsim.cli.common import FAILED, json_option, reports_errors, show_result, sigterm_interrupts
from rtsim.cli.latency import Given, allowed, parse_latencies, print_latencies
from rtsim.cli.options import parse_settings
from rtsim.cli.progress import ProgressLine
from rtsim.cli.running import open_recorder
from rtsim.cli.summary import note_lines
from rtsim.cli.terminal import console
from rtsim.core.errors import UnknownName
from rtsim.equations.compiling import announced
from rtsim.scenario.loading import load_scenario


@click.command()
@comparison_options
@controllers_option
@build_option
@coverage_option
@keys_option
@link_option
@warnings_option
@click.option(
    "--stimuli",
    "stimuli_files",
    multiple=True,
    metavar="[NAME=]FILE",
    help="File of further input sequences for controller NAME, as 'rtsim sil generate' writes it.  "
    "[default: X.stimuli.toml beside the interface file X.toml, if it exists]",
)
@click.option("--no-stimuli", is_flag=True, help="Use no stimuli.")
@json_option
@reports_errors
def test(
    asked: ComparisonOptions,
    controllers: tuple[str, ...],
    kind: str,
    counted_into: Path,
    keys: Path | None,
    link: str | None,
    strictness: str,
    stimuli_files: tuple[str, ...],
    no_stimuli: bool,
    as_json: bool,
) -> None:
    """Compare the C code of a controller with its reference model.

    SCENARIO is a name ('rtsim scenarios' lists them) or FILE.py[:FUNCTION]. First, SCENARIO runs
    with the reference model. In the open loop, the recorded inputs go step by step through the
    reference model and the C code. In the closed loop, SCENARIO runs with the C code. Stimuli are
    further input sequences for the open loop, each from the start of the controller.

    A value passes if it differs by at most max(ABS, REL*|value of the reference model|). Without
    --abs, --rel and --tol the type of each output and the range of each signal give the tolerance.

    Exit status 0 if the C code does what its reference model does, 1 if a value differs, 2 if this
    could not be decided, for example because no output changed or the host failed.

    \b
    Examples:
      rtsim sil test scenario.py -c motor.toml
      rtsim sil test scenario.py -c motor.toml:float --tol voltage=1e-5 --html report.html
      rtsim sil test scenario.py -c motor.toml --stimuli more.stimuli.toml
    """
    asked.check()
    rules, writers = asked.rules(), asked.writers()
    line = ProgressLine(asked.scenario, enabled=sys.stderr.isatty() and not as_json)
    with sigterm_interrupts(), closing(line), ExitStack() as stack, announced(line.compiling):
        loaded = load_scenario(asked.scenario, parse_settings(asked.settings))
        loaded.faults(*asked.faults)
        note_lines(loaded)
        built: dict[str, SilController] = {}
        given = parse_controllers(controllers, loaded)
        times = parse_latencies(asked.latencies, list(given))
        for name, interface in given.items():
            line.say(f"building {interface} ({kind}) …")
            built[name] = in_c(interface, kind, keys, link)
        said = {name: controller.warnings for name, controller in built.items()}
        refuse_warnings(said, strictness, as_json)
        stimuli = _stimuli(built, stimuli_files, no_stimuli)
        recorder = None
        if asked.path is not None:
            recorder = stack.enter_context(open_recorder(asked.path, loaded.name, asked.force))
        with counting(kind, [c.build for c in built.values()], counted_into) as counted:
            result = back_to_back(
                loaded,
                built,
                pace=asked.pace,
                latency=allowed(times),
                until=asked.until,
                seed=asked.seed,
                tolerances=rules,
                recording=asked.recording,
                stimuli=stimuli,
                closed=not asked.open_only,
                reach=kind != COVERAGE,
                recorder=recorder,
                watch=watch_of(line),
            )
        for file, write in writers.items():
            line.say(f"writing {file} …")
            write(result, file)
    files = [*writers, *([recorder.path] if recorder is not None and recorder.started else [])]
    status = asked.status(result) or (FAILED if counted.failed else 0)
    if as_json:
        more = {**faults_to_json(result.pairs), **counted.to_json()}
        data = {**result.to_json(), "files": [str(f) for f in files], **more}
        show_result(data, status, asked.why(result) or counted.failed)
    else:
        _show(result, files, times, counted)
    sys.exit(status)


def _stimuli(
    built: Mapping[str, SilController], files: Sequence[str], none: bool
) -> dict[str, Stimuli]:
    """Return the stimuli of each controller, by name; ``files`` are ``[NAME=]FILE``."""
    if none and files:
        raise StimuliError("--stimuli and --no-stimuli exclude each other; leave one out")
    given: dict[str, Path] = {}
    for value in files:
        name, equals, file = value.partition("=")
        if not equals and len(built) > 1:
            first = next(iter(built))
            raise StimuliError(
                f"--stimuli {value} names no controller, and there are {', '.join(built)}; type, "
                f"for example: --stimuli {first}={value}"
            )
        if not equals:
            (name,), file = built, value
        if name not in built:
            raise UnknownName("controller", name, list(built), f"--stimuli {value}")
        if name in given:
            raise StimuliError(f"--stimuli {value}: {name} has two files; leave out one")
        given[name] = Path(file)
    return {} if none else stimuli_of({n: c.interface for n, c in built.items()}, given)


def _show(result: BackToBack, files: list[Path], times: Given, counted: Counting) -> None:
    out = console()
    out.print(Tables(result), crop=False)
    for file in files:
        out.print(f"written: {file}", soft_wrap=True)
    print_latencies(times)
    counted.print(out)
    out.print(result.in_words.splitlines()[0], soft_wrap=True)

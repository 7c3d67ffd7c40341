"""The command ``rtsim sil test``, with options that ``rtsim pitl`` shares."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

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
    watch_of,
)
from hitl.comparison.back_to_back import compare_chain
from hitl.comparison.conditions import ComparisonRequest, ProgressWatch, Stage
from hitl.comparison.outputs import Sides
from hitl.comparison.tolerances import one_after_the_other
from hitl.comparison.verdict import BackToBack, ComparisonChain
from hitl.controllers.sil import SilController
from hitl.results.columns import check_result, faults_to_json
from hitl.results.table import Tables
from hitl.stimuli.file import Stimuli, StimuliError, stimuli_of
from rtsim.cli.common import (
    FAILED,
    NO,
    F,
    json_option,
    reports_errors,
    show_result,
    sigterm_interrupts,
)
from rtsim.cli.options import option, with_options_as
from rtsim.cli.recordings import tolerances
from rtsim.cli.run_options import Given, allowed, latency_option, parse_latencies, print_latencies
from rtsim.cli.running import load_run, note_lines, open_recorder
from rtsim.cli.terminal import console
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.equations.compiling import announced
from rtsim.record.verdict import Tolerance, tolerance_of
from rtsim.runs.progress import ProgressLine

# Options, result files and progress output shared by ``rtsim sil test`` and ``rtsim pitl``.

_path = click.Path(path_type=Path)
Writer = Callable[[BackToBack | ComparisonChain, Path], None]


@dataclass(frozen=True)
class ComparisonOptions:
    """The options of a comparison."""

    scenario: str
    settings: tuple[str, ...]
    faults: tuple[Path, ...]
    requirements: tuple[str, ...]
    counterexample: Path | None
    seed: int | None
    until: str | None
    latencies: tuple[str, ...]
    pace: str
    absolute: float | None
    relative: float | None
    single: tuple[str, ...]
    recording: Path | None
    open_only: bool
    junit: Path | None
    html: Path | None
    path: Path | None
    force: bool
    strict: bool

    def check(self) -> None:
        """Raise ``ScenarioError`` for wrong options, before the scenario is loaded."""
        if self.seed is not None and self.seed < 0:
            raise ScenarioError(f"--seed {self.seed} is negative; give a whole number >= 0")
        if self.open_only and self.path is not None:
            raise ScenarioError(
                f"--open-only runs no closed loop, so there is nothing to record into {self.path}; "
                "leave out --open-only or -o"
            )
        if self.open_only and (self.requirements or self.counterexample):
            option = "--require" if self.requirements else "--counterexample"
            raise ScenarioError(
                f"{option} checks the closed loop, which --open-only leaves out; leave out "
                f"{option} or --open-only"
            )

    def rules(self) -> dict[str, Tolerance]:
        """Return the tolerances by signal pattern; ``--abs 0`` requires equality bit for bit."""
        every: dict[str, Tolerance] = {}
        if self.absolute is not None or self.relative is not None:
            every["*"] = tolerance_of("*", (self.absolute or 0.0, self.relative or 0.0))
        some = tolerances(0.0, 0.0, self.single)
        return one_after_the_other(every, {p: Tolerance(*values) for p, values in some.items()})

    def status(self, result: BackToBack | ComparisonChain) -> int:
        """Return the exit status.

        If a result has passed but ``--strict`` rejects it, the status is 1.
        """
        if self.strict and result.ok and _refused(result):
            return NO
        return result.outcome.value

    def why(self, result: BackToBack | ComparisonChain) -> str:
        if not result.ok:
            return result.in_words
        return "; ".join(_refused(result)) if self.strict else ""

    def writers(self) -> dict[Path, Writer]:
        """Return a function for each result file, which writes the file.

        Raises ``RecordingError`` if a path is not writable.
        """
        out: dict[Path, Writer] = {}
        if self.junit is not None:
            from hitl.results.junit import write_junit

            check_result(self.junit, b"<testsuites", "a JUnit file")
            out[self.junit] = partial(write_junit, strict=self.strict)
        if self.html is not None:
            from hitl.results.page import MARK, write_page

            check_result(self.html, MARK.encode(), "a report")
            out[self.html] = write_page
        return out


_OPTIONS = (
    click.argument("scenario"),
    option("--set"),
    option("--faults"),
    option("--require"),
    option("--counterexample"),
    option("--seed"),
    option("--until"),
    latency_option,
    click.option(
        "--pace",
        default="max",
        show_default=True,
        help="Pace of the run with the C code or the board: 'max', or a rate (1.0 is real time).",
    ),
    click.option(
        "--abs", "absolute", type=float,
        help="Absolute tolerance of every signal, in the signal's unit.  [default: from the type "
        "and range of the signal]",
    ),
    click.option(
        "--rel", "relative", type=float,
        help="Relative tolerance of every signal.  [default: from the type of the signal]",
    ),
    click.option(
        "--tolerance", "--tol", "single", multiple=True, metavar="NAME=ABS[,REL]",
        help="Tolerance of the signals that match NAME: force=1e-6, 'plant.*=0,1e-9'.",
    ),
    click.option(
        "--recording", type=_path, metavar="FILE",
        help="Recording from which the inputs of the open loop are read.  [default: the run with "
        "the reference model]",
    ),
    click.option(
        "--open-only", is_flag=True, help="Compare in the open loop only; run no closed loop."
    ),
    click.option("--junit", type=_path, metavar="FILE", help="Write the result as JUnit XML."),
    click.option(
        "--html", type=_path, metavar="FILE",
        help="Write the result as an HTML report that needs no other file.",
    ),
    click.option(
        "-o", "--record", "path", type=_path, metavar="FILE",
        help="File for the recording of the closed-loop run.  [default: no recording]",
    ),
    click.option("--force", is_flag=True, help="Overwrite the file given with -o if it exists."),
    click.option(
        "--strict", is_flag=True,
        help="Exit with status 1 if a fault never acted, if a stimulus does not reach the "
        "branches that it names, or if a latency or an exchange with the board is longer than the "
        "period.",
    ),
)  # fmt: skip


def _refused(result: BackToBack | ComparisonChain) -> list[str]:
    return [*result.pairs[-1].never_acted, *result.doubts]


def comparison_options(command: F) -> F:
    """Add the argument and the options of comparisons to a command.

    The decorated command has a parameter ``asked``, which receives all values as one
    :class:`ComparisonOptions`.
    """
    return with_options_as(ComparisonOptions, "asked", command, _OPTIONS)


class Comparing:
    """A comparison in a command: scenario, progress and files."""

    def __init__(self, asked: ComparisonOptions, line: ProgressLine, stack: ExitStack) -> None:
        self.asked, self.line, self._stack = asked, line, stack
        self.scenario, self._seed = load_run(
            asked.scenario, asked.settings, asked.counterexample, asked.seed, asked.faults
        )
        self.scenario.require_all(*asked.requirements)
        self.times: Given = {}
        self.files: list[Path] = []
        self._rules, self._writers = asked.rules(), asked.writers()

    def parse(self, controllers: Sequence[str]) -> dict[str, str]:
        """Return the interface file of each controller from the option ``-c``."""
        given = parse_controllers(controllers, self.scenario)
        self.times = parse_latencies(self.asked.latencies, list(given))
        return given

    def run(
        self, stages: list[Stage], watch: ProgressWatch | None = None, **more: Any
    ) -> BackToBack | ComparisonChain:
        """Compare ``stages`` and write the result files; ``more`` has further request fields."""
        asked, recorder = self.asked, None
        if asked.path is not None:
            made = open_recorder(asked.path, self.scenario.name, asked.force)
            recorder = self._stack.enter_context(made)
        request = ComparisonRequest(
            pace=asked.pace,
            latency=allowed(self.times),
            until=asked.until,
            seed=self._seed,
            tolerances=self._rules,
            recording=asked.recording,
            closed=not asked.open_only,
            recorder=recorder,
            watch=watch or watch_of(self.line),
            **more,
        )
        chain = compare_chain(self.scenario, stages, request)
        result = chain if len(stages) > 1 else chain.pairs[0]
        for file, write in self._writers.items():
            self.line.say(f"writing {file} …")
            write(result, file)
        self.files = [*self._writers]
        if recorder is not None and recorder.started:
            self.files.append(recorder.path)
        return result

    def report(
        self,
        result: BackToBack | ComparisonChain,
        as_json: bool,
        counted: Counting | None = None,
        **more: object,
    ) -> NoReturn:
        """Print the result, and exit with its status; ``more`` contains further JSON fields."""
        failed = "" if counted is None else counted.failed
        status = self.asked.status(result) or (FAILED if failed else 0)
        if as_json:
            data = {**result.to_json(), **more, "files": [str(file) for file in self.files]}
            data |= faults_to_json(result.pairs) | ({} if counted is None else counted.to_json())
            show_result(data, status, self.asked.why(result) or failed)
            sys.exit(status)
        out = console()
        out.print(Tables(result), crop=False)
        for file in self.files:
            out.print(f"written: {file}", soft_wrap=True)
        print_latencies(self.times)
        if counted is not None:
            counted.print(out)
        out.print(result.in_words.splitlines()[0], soft_wrap=True)
        sys.exit(status)


@contextmanager
def comparing(asked: ComparisonOptions, as_json: bool) -> Iterator[Comparing]:
    """Context manager that checks the options, loads the scenario and shows the progress."""
    asked.check()
    line = ProgressLine(asked.scenario, enabled=sys.stderr.isatty() and not as_json)
    with sigterm_interrupts(), closing(line), ExitStack() as stack, announced(line.compiling):
        yield Comparing(asked, line, stack)


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
    """Compare C code of a controller with the reference controller.

    SCENARIO is a name ('rtsim scenarios' lists them) or FILE.py[:FUNCTION]. First, SCENARIO runs
    with the reference model. In the open loop, recorded inputs are passed step by step to the
    reference controller and the C code. In the closed loop, SCENARIO runs with the C code. Stimuli
    are further input sequences for the open loop.

    A value passes if it differs by at most max(ABS, REL*|value of the reference model|). Without
    --abs, --rel and --tol, the tolerances depend on the types of the outputs and the ranges of the
    signals.

    Exit status 0 if the C code agrees with the reference model and all requirements hold, 1 if a
    value differs or a requirement is violated, 2 if this could not be decided, for example because
    no output changed, a requirement is undecided or the host failed.

    \b
    Examples:
      rtsim sil test scenario.py -c motor.toml
      rtsim sil test scenario.py -c motor.toml:float --tol voltage=1e-5 --html report.html
      rtsim sil test scenario.py -c motor.toml --stimuli more.stimuli.toml
    """
    with comparing(asked, as_json) as work:
        note_lines(work.scenario)
        built: dict[str, SilController] = {}
        for name, interface in work.parse(controllers).items():
            work.line.say(f"building {interface} ({kind}) …")
            built[name] = in_c(interface, kind, keys, link)
        said = {name: controller.warnings for name, controller in built.items()}
        refuse_warnings(said, strictness, as_json)
        stimuli = _stimuli(built, stimuli_files, no_stimuli)
        stage = Stage(Sides().translation, built)
        with counting(kind, [c.build for c in built.values()], counted_into) as counted:
            result = work.run([stage], stimuli=stimuli, reach=kind != COVERAGE)
    work.report(result, as_json, counted)


def _stimuli(
    built: Mapping[str, SilController], files: Sequence[str], none: bool
) -> dict[str, Stimuli]:
    if none and files:
        raise StimuliError("--stimuli and --no-stimuli exclude each other; leave one out")
    given: dict[str, Path] = {}
    for value in files:
        name, equals, file = value.partition("=")
        if not equals and len(built) > 1:
            first = next(iter(built))
            raise StimuliError(
                f"--stimuli {value} must name one of the controllers {', '.join(built)}; type, "
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

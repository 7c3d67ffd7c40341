"""Common options, result files and progress output of ``rtsim sil test`` and ``rtsim pitl``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from hitl.comparison.back_to_back import BackToBack, Ladder, ProgressWatch
from hitl.comparison.tolerances import one_after_the_other
from hitl.results.files import check_result
from rtsim.cli.common import NO, F
from rtsim.cli.latency import latency_option
from rtsim.cli.options import option, with_options
from rtsim.cli.progress import ProgressLine
from rtsim.cli.recordings import tolerances
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError
from rtsim.record.verdict import Tolerance, tolerance_of

_path = click.Path(path_type=Path)
_EVERY_NS = 200_000_000
Writer = Callable[[BackToBack | Ladder, Path], None]


@dataclass(frozen=True)
class ComparisonOptions:
    """The values of the options that :func:`comparison_options` adds to a command."""

    scenario: str
    settings: tuple[str, ...]
    faults: tuple[Path, ...]
    seed: int
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
        """Raise :class:`ScenarioError` for wrong options, before the scenario is loaded."""
        if self.seed < 0:
            raise ScenarioError(f"--seed {self.seed} is negative; give a whole number >= 0")
        if self.open_only and self.path is not None:
            raise ScenarioError(
                f"--open-only runs no closed loop, so there is nothing to record into {self.path}; "
                "leave out --open-only or -o"
            )

    def rules(self) -> dict[str, Tolerance]:
        """Return the tolerances by signal pattern; ``--abs 0`` requires equal bits."""
        every: dict[str, Tolerance] = {}
        if self.absolute is not None or self.relative is not None:
            every["*"] = tolerance_of("*", (self.absolute or 0.0, self.relative or 0.0))
        some = tolerances(0.0, 0.0, self.single)
        return one_after_the_other(every, {p: Tolerance(*values) for p, values in some.items()})

    def status(self, result: BackToBack | Ladder) -> int:
        """Return the exit status; with ``--strict``, it is 1 if a passed result has doubts."""
        if self.strict and result.ok and _refused(result):
            return NO
        return result.outcome.value

    def why(self, result: BackToBack | Ladder) -> str:
        """Return the reason if the exit status is not 0, else an empty text."""
        if not result.ok:
            return result.in_words
        return "; ".join(_refused(result)) if self.strict else ""

    def writers(self) -> dict[Path, Writer]:
        """Return the function that writes each result file, by path.

        Raises :class:`RecordingError` if a path is not writable, before the comparison runs.
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
        help="Record the closed-loop run with the C code or the board in FILE.  [default: no "
        "recording]",
    ),
    click.option("--force", is_flag=True, help="Overwrite the file given with -o if it exists."),
    click.option(
        "--strict", is_flag=True,
        help="Exit with status 1 if a fault never acted, if a stimulus does not reach what it "
        "names, or if a latency or an exchange with the board is longer than the period.",
    ),
)  # fmt: skip


def _refused(result: BackToBack | Ladder) -> list[str]:
    """Return clauses on what ``--strict`` refuses; the faults are those of the last comparison."""
    return [*result.pairs[-1].never_acted, *result.doubts]


def comparison_options(command: F) -> F:
    """Add the argument and options of a comparison to ``command``, as a decorator.

    ``command`` gets them as one :class:`ComparisonOptions`, in its argument ``asked``.
    """
    names = [field.name for field in fields(ComparisonOptions)]

    @wraps(command)
    def packed(**options: Any) -> Any:
        asked = ComparisonOptions(**{name: options.pop(name) for name in names})
        return command(asked=asked, **options)

    return with_options(packed, _OPTIONS)  # type: ignore[no-any-return]


def watch_of(line: ProgressLine) -> ProgressWatch:
    """Return a watch that shows the progress in the terminal's ``line``, five times a second."""
    told = [0]

    def stepped(step: int, steps: int) -> None:
        now = stopwatch()
        if now >= told[0]:
            told[0] = now + _EVERY_NS
            line.say(f"step {step} / {steps}")

    return ProgressWatch(lambda stage: line.say(f"{stage} …"), line.show, stepped)

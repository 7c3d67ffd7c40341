"""What the commands share that hold a translation against a design: options, files, who is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from hitl.comparison.back_to_back import BackToBack, Ladder, ProgressWatch
from hitl.comparison.tolerances import one_after_the_other
from hitl.results.faults import all_acted
from hitl.results.files import check_result
from rtsim.cli.common import NO, F
from rtsim.cli.faults import faults_option
from rtsim.cli.latency import latency_option
from rtsim.cli.progress import ProgressLine
from rtsim.cli.recordings import tolerances
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError
from rtsim.record.verdict import Tolerance

_path = click.Path(path_type=Path)
_EVERY_NS = 200_000_000
Writer = Callable[[BackToBack | Ladder, Path], None]


@dataclass(frozen=True)
class ComparisonOptions:
    """What was typed, by the names of :func:`comparison_options`."""

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
        """Mistakes that can be told before anything is loaded."""
        if self.seed < 0:
            raise ScenarioError(f"--seed {self.seed}; give a whole number >= 0")
        if self.open_only and self.path is not None:
            raise ScenarioError(f"--open-only flies nothing that -o {self.path} could record")

    def rules(self) -> dict[str, Tolerance]:
        """As ``rtsim compare`` reads them; ``--abs 0`` asks for equal bits."""
        every: dict[str, Tolerance] = {}
        if self.absolute is not None or self.relative is not None:
            every["*"] = Tolerance(self.absolute or 0.0, self.relative or 0.0)
        some = tolerances(0.0, 0.0, self.single)
        return one_after_the_other(every, {p: Tolerance(*values) for p, values in some.items()})

    def status(self, result: BackToBack | Ladder) -> int:
        """The exit status: that of the outcome, or a no where ``--strict`` is not met."""
        if self.strict and result.ok and not all_acted(result.pairs):
            return NO
        return result.outcome.value

    def writers(self) -> dict[Path, Writer]:
        """What writes which file; refused now where that will not be possible."""
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
    click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUE", help="f16.cg=0.3, case=15"
    ),
    faults_option,
    click.option("--seed", default=0, show_default=True, help="Seed of every random stream."),
    click.option("--until", default=None, help="Simulated seconds; default: the scenario's own."),
    latency_option,
    click.option(
        "--pace",
        default="max",
        show_default=True,
        help="Of the flight with the C, or with the board; 1.0 is real time.",
    ),
    click.option("--abs", "absolute", type=float, help="Absolute tolerance of every signal."),
    click.option("--rel", "relative", type=float, help="Relative tolerance of every signal."),
    click.option(
        "--tolerance", "--tol", "single", multiple=True, metavar="NAME=ABS[,REL]",
        help="For some signals: force=1e-6, 'plant.*=0,1e-9'.",
    ),
    click.option(
        "--recording", type=_path, help="Inputs of the open loop, instead of the design's."
    ),
    click.option("--open-only", is_flag=True, help="Step by step only; nothing flies with the C."),
    click.option("--junit", type=_path, help="JUnit XML to write."),
    click.option("--html", type=_path, help="Report to write, one page with everything in it."),
    click.option(
        "-o", "--record", "path", type=_path,
        help="Recording of the flight with the C, or with the board.",
    ),
    click.option("--force", is_flag=True, help="Write over an older recording."),
    click.option("--strict", is_flag=True, help="Exit 1 too where a fault never acted."),
)  # fmt: skip


def comparison_options(command: F) -> F:
    """Argument and options of a comparison, handed to ``command`` as its argument ``asked``."""
    names = [field.name for field in fields(ComparisonOptions)]

    @wraps(command)
    def packed(**options: Any) -> Any:
        asked = ComparisonOptions(**{name: options.pop(name) for name in names})
        return command(asked=asked, **options)

    decorated: Any = packed
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def watch_of(line: ProgressLine) -> ProgressWatch:
    """Told on the terminal; steps five times a second."""
    told = [0]

    def stepped(step: int, steps: int) -> None:
        now = stopwatch()
        if now >= told[0]:
            told[0] = now + _EVERY_NS
            line.say(f"step {step} / {steps}")

    return ProgressWatch(lambda stage: line.say(f"{stage} …"), line.show, stepped)

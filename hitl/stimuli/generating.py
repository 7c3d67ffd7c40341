"""Generate stimuli: measure a run, search for the remaining branches, and simplify."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hitl.building.build import Build
from hitl.building.toolchain import BuildError
from hitl.controllers.c_controller import GivenParameters
from hitl.controllers.sil import SERVED
from hitl.interface import Interface
from hitl.stimuli.file import MARK, MOST_STEPS, Ranges, Stimuli, StimuliError, Stimulus, Table
from hitl.stimuli.probes import Branch, Probed
from hitl.stimuli.running import Runner, program
from hitl.stimuli.search import Search, Shortening, Trial, covering
from rtsim.core.errors import RtsimError

Observer = Callable[[int, int, int], None]
"""Function that is called with the number of runs, of reached branches, and of all branches."""
_SHARE = 4
"""The search for hazards runs at most this fraction (1/4) of the sequences of the branch search."""
MOST_OPEN = 8
"""Greatest number of branches that a comparison prints; its JSON contains all."""
RUNS, STEPS = 20_000, 100
"""Default limits: number of sequences to run, and number of steps of each."""


@dataclass(frozen=True)
class Limits:
    """Limits of the search, and its seed."""

    seed: int = 0
    runs: int = RUNS
    steps: int = STEPS

    def check(self) -> None:
        """Raise ``StimuliError`` for an invalid limit."""
        if self.seed < 0:
            raise StimuliError(f"--seed {self.seed} is negative; give a whole number >= 0")
        for name, value in (("runs", self.runs), ("steps", self.steps)):
            if not 1 <= value <= 10_000_000:
                raise StimuliError(f"--{name} {value} is not possible; give 1 to 10000000")


@dataclass(frozen=True)
class Open:
    """A branch that was not reached, and the two compared values that came nearest."""

    branch: Branch
    distance: float
    left: float
    right: float

    @property
    def nearest(self) -> str:
        if np.isinf(self.distance):
            return "its condition was never evaluated"
        if not self.branch.switched:
            return f"nearest: {self.left:.6g} against {self.right:.6g}"
        return f"nearest: {self.distance:.6g} away"

    def to_json(self) -> dict[str, Any]:
        one = self.branch
        return {
            "file": str(one.file),
            "line": one.line,
            "way": one.way,
            "condition": one.text,
            "function": one.function,
        }


@dataclass(frozen=True, eq=False)
class Generated:
    """The result of a search. The counts of branches are measured."""

    stimuli: Stimuli
    branches: tuple[Branch, ...]
    begun: NDArray[np.bool_]
    """The branches that the recorded run reaches, shape (n,)."""
    reached: NDArray[np.bool_]
    """The branches that the recorded run or a stimulus reaches, shape (n,)."""
    edges: tuple[int, int]
    """Number of narrowly taken branches, and number of branches that can be taken narrowly."""
    open: tuple[Open, ...]
    runs: int
    """Number of sequences that the search ran, without those of the simplification."""
    in_full: bool
    """False if a limit of wall-clock time ended the search."""
    unmeasured: tuple[str, ...]
    """Code whose branches were not measured, as clauses such as ``the functions at motor.c:7``."""
    unstable: tuple[str, ...] = ()
    """Goals that a stimulus reached once, but not when it was repeated."""
    far: tuple[Open, ...] = ()
    """Branches that no sequence took narrowly, without those in ``open``."""
    hazards: tuple[str, ...] = ()
    """Errors of the C code that a stimulus demonstrates, such as ``a / b divides by 0``."""
    searched: int | None = 0
    """Number of divisors, indices, shifts and sums in the search, or ``None`` without probes."""
    all_runs: int = 0
    """``runs`` plus the sequences of the search for hazards."""

    @property
    def complete(self) -> bool:
        """True if all branches were reached and all functions were measured."""
        return bool(self.reached.all()) and not self.unmeasured

    @property
    def failing(self) -> tuple[Stimulus, ...]:
        return tuple(one for one in self.stimuli.stimuli if one.fails)

    @property
    def in_words(self) -> str:
        count, some = len(self.branches), int(self.reached.sum())
        name = self.stimuli.controller
        if not count:
            return f"{name}: its C code has no branches{self._dangers}{self._but}"
        runs = f"{self.edges[0]} of {self.edges[1]} with little to spare; {self.runs} runs"
        share = f"{some} of {count} branches ({100.0 * some / count:.1f} %)"
        return f"{name}: {share} are reached; {runs}{self._dangers}{self._but}"

    @property
    def _dangers(self) -> str:
        if self.searched is None:
            return "; divisors, indices, shifts and sums: not measured"
        if not self.searched:
            return ""
        found = len(self.hazards)
        were = "was" if found == 1 else "were"
        return (
            f"; {found} of {self.searched} divisors, indices, shifts and sums {were} found to go "
            f"wrong in {self.all_runs} runs"
        )

    @property
    def _but(self) -> str:
        return f"; not measured: {'; '.join(self.unmeasured)}" if self.unmeasured else ""

    def to_json(self) -> dict[str, Any]:
        return {
            "controller": self.stimuli.controller,
            "branches": len(self.branches),
            "reached_by_the_run": int(self.begun.sum()),
            "reached": int(self.reached.sum()),
            "reached_with_little_to_spare": self.edges[0],
            "comparisons": self.edges[1],
            "complete": self.complete,
            "hazards": list(self.hazards),
            "hazards_searched": self.searched,
            "hazards_searched_in_runs": self.all_runs,
            "open": [
                {**one.to_json(), "not_reached_in_runs": self.runs, "nearest": one.nearest}
                for one in self.open
            ],
            "not_with_little_to_spare": [
                {**one.to_json(), "nearest": one.nearest} for one in self.far
            ],
            "stimuli": [
                {"steps": len(s.steps), "reaches": list(s.reaches), "fails": s.fails}
                for s in self.stimuli.stimuli
            ],
            "runs": self.runs,
            "in_full": self.in_full,
            "not_measured": list(self.unmeasured),
            "not_repeatable": list(self.unstable),
        }  # fmt: skip


def generate(
    build: Build,
    limits: Limits,
    *,
    run: Table | None = None,
    values: Mapping[str, object] | None = None,
    goes_on: Callable[[], bool] = lambda: True,
    observe: Observer = lambda *_: None,
    origin: str = "",
) -> Generated:
    """Search for stimuli that reach the branches of ``build`` that ``run`` does not reach.

    ``run`` (k, m) contains the inputs of a recorded run. ``values`` contains parameters by name.
    ``goes_on`` is called between rounds. If ``goes_on()`` returns False, the search ends early, and
    its result is not repeatable. ``origin`` is the scenario of the recorded run, for the file.
    Raises :class:`StimuliError` and the errors of a build.
    """
    limits.check()
    interface = build.interface
    parameters = GivenParameters(interface, values or {})
    with program(build) as made:
        found = made.found
        if not interface.inputs.size and found.branches:
            raise StimuliError(
                f"{interface.name} has no inputs, so there is nothing to vary; its branches can "
                "depend on its parameters only"
            )
        ranges = Ranges(interface, run, found.numbers)
        sizes = interface.inputs.size, len(found.branches)
        with Runner(made.path, parameters.sent, *sizes) as runner:
            search = Search(runner, ranges, limits.seed, limits.steps, found.hazards)
            search.begin(run)
            begun = _reached_by(runner, run)
            in_full = _searched(search, limits, goes_on, observe)
            runs = runner.runs
            in_full = in_full and search.go_on_to_hazards(limits.runs // _SHARE, goes_on)
            all_runs = runner.runs
            kept = _shortened(search, ranges, begun)
            failing = _failing(search, ranges)
            again = runner.run([trial.table for trial, _ in kept])
    reached, wanted = begun.copy(), begun.copy()
    for (_, needed), result in zip(kept, again, strict=True):
        reached |= result.hits
        wanted |= needed
    count = len(found.branches)
    plain = np.array([b not in found.hazards for b in range(count)], np.bool_)
    goals = [*(b.in_words for b in found.branches), *(b.just for b in found.branches)]
    stimuli = [
        Stimulus(trial.table, tuple(goals[g] for g in np.flatnonzero(needed)))
        for trial, needed in kept
    ]
    stimuli += [
        Stimulus(t.table, () if at < 0 else (goals[at],), how) for (how, at), t in failing.items()
    ]
    wrong = [goals[b] for b in sorted(found.hazards) if reached[b]]
    wrong += [goals[at] for _, at in failing if at >= 0]
    met = sum(bool(np.isfinite(search.closest[b][0]) or search.hits[b]) for b in found.hazards)
    about = {
        "seed": limits.seed, "runs": runs, "steps": limits.steps,
        **({"scenario": origin} if origin else {}), "sha256": interface.sha256,
    }  # fmt: skip
    return Generated(
        stimuli=Stimuli(interface.name, interface.inputs.columns, tuple(stimuli), about),
        branches=tuple(b for b, own in zip(found.branches, plain.tolist(), strict=True) if own),
        begun=begun[:count][plain],
        reached=reached[:count][plain],
        edges=(int(reached[count:].sum()), len(found.edges)),
        open=_open(search, found, np.flatnonzero(~reached[:count] & plain)),
        far=_open(search, found, _far(found, reached), first=count),
        runs=runs,
        in_full=in_full,
        unmeasured=made.unmeasured,
        unstable=tuple(goals[g] for g in np.flatnonzero(wanted & ~reached)),
        hazards=tuple(dict.fromkeys(wrong)),
        searched=met if made.probes.hazards else None,
        all_runs=all_runs,
    )


def _reached_by(runner: Runner, run: Table | None) -> NDArray[np.bool_]:
    if run is None or not len(run):
        return np.zeros(runner.goals, np.bool_)
    (reached,) = runner.run([run])
    if not reached.ok:
        raise StimuliError(
            f"the C code fails on the inputs of the run, at step {reached.steps}: "
            f"{reached.failure or 'an input does not fit its type'}; type: rtsim sil test"
        )
    return reached.hits


def _searched(
    search: Search, limits: Limits, goes_on: Callable[[], bool], observe: Observer
) -> bool:
    def asked() -> bool:
        observe(search.runner.runs, int(search.branches.sum()), len(search.branches))
        return goes_on()

    return search.go_on(limits.runs, asked)


def _shortened(
    search: Search, ranges: Ranges, begun: NDArray[np.bool_]
) -> list[tuple[Trial, NDArray[np.bool_]]]:
    wanted = search.hits & ~begun
    short = [
        Shortening(search.runner, ranges, needed).shortened(trial)
        for trial, needed in covering(search.corpus, wanted)
    ]
    return covering(short, wanted)


def _failing(search: Search, ranges: Ranges) -> dict[tuple[str, int], Trial]:
    out = {}
    for (how, at), trial in search.failures.items():
        needed = np.zeros(search.runner.goals, np.bool_)
        if at >= 0:
            needed[at] = True
        out[how, at] = Shortening(search.runner, ranges, needed, how).shortened(trial)
    return out


def _far(found: Probed, reached: NDArray[np.bool_]) -> NDArray[np.int64]:
    taken, closely = reached.reshape(2, -1)
    return np.array([b for b in sorted(found.edges) if taken[b] and not closely[b]], np.int64)


def _open(
    search: Search, found: Probed, left: NDArray[np.int64], first: int = 0
) -> tuple[Open, ...]:
    out = [Open(found.branches[b], *search.closest[first + b]) for b in left]
    return tuple(sorted(out, key=lambda one: one.branch))


# Measurement of the branches that input sequences reach, with probes in the C code.

_LINE = re.compile(r"(\.\w+):\d+(?=: | in |$)")


@dataclass(frozen=True, eq=False)
class Reach:
    """Branches of the C code that the inputs of a comparison reach."""

    interface: Interface
    branches: tuple[int, ...] = ()
    """Indices of the branches in ``goals``, which also contains hazards and narrow branches."""
    goals: tuple[str, ...] = ()
    """Descriptions of all goals, shape (g,)."""
    hits: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), np.bool_))
    """The goals that each of k sequences reaches, shape (k, g)."""
    unmeasured: tuple[str, ...] = ()
    """Code whose branches were not measured, as clauses such as ``the functions at motor.c:7``."""
    open: tuple[Branch, ...] = ()
    """The branches that no sequence reaches."""
    why: str = ""
    """Why nothing was measured, or ""."""

    @classmethod
    def of(cls, build: Build, values: Mapping[str, object], tables: Sequence[Table]) -> Reach:
        """Run the C code of ``build`` with each input sequence (k, m) in ``tables``.

        The columns have the order of the interface file. ``values`` contains parameters by name.
        """
        interface = build.interface
        try:
            return cls._measured(build, values, tables)
        except (BuildError, RtsimError) as error:
            return cls(interface, why=str(error).partition("\n")[0])

    @classmethod
    def _measured(
        cls, build: Build, values: Mapping[str, object], tables: Sequence[Table]
    ) -> Reach:
        interface = build.interface
        if build.kind == SERVED:
            raise StimuliError(
                "the C code runs on another machine, where rtsim cannot insert "
                "probes; give an interface file without an address"
            )
        if any(len(table) > MOST_STEPS for table in tables):
            raise StimuliError(
                f"the run has more than {MOST_STEPS} steps, the limit for stimuli; "
                f"give an earlier --until"
            )
        sent = GivenParameters(interface, values).sent
        with program(build) as made:
            found = made.found
            with Runner(made.path, sent, interface.inputs.size, len(found.branches)) as runner:
                reached = runner.run(tables)
        for one in reached:
            if not one.ok:
                how = one.failure or "an input does not fit its type"
                raise StimuliError(f"with probes, {how}")
        goals = [*(b.in_words for b in found.branches), *(b.just for b in found.branches)]
        hits = np.array([one.hits for one in reached]).reshape(len(tables), len(goals))
        branches = tuple(k for k in range(len(found.branches)) if k not in found.hazards)
        open_ = [found.branches[k] for k in branches if not hits[:, k].any()]
        return cls(interface, branches, tuple(goals), hits, made.unmeasured, tuple(open_))

    @property
    def in_brief(self) -> list[str]:
        if self.why:
            return [f"which branches of the C code ran was not measured: {self.why}"]
        left, out = len(self.open), []
        if left:
            were = "was" if left == 1 else "were"
            out = [f"{left} of {len(self.branches)} branches of the C code {were} not reached"]
        if self.unmeasured:
            out.append(f"branches of the C code were not measured: {'; '.join(self.unmeasured)}")
        return out

    @property
    def in_words(self) -> list[str]:
        out = self.in_brief
        if self.open and not self.why:
            out[0] += f"; {MARK} -c {self._file} looks for stimuli that reach them"
            out[1:1] = [f"never taken: {one.in_function}" for one in self.open[:MOST_OPEN]]
            if (more := len(self.open) - MOST_OPEN) > 0:
                out.insert(1 + MOST_OPEN, f"never taken: {more} more, which --json lists")
        return out

    @property
    def _file(self) -> str:
        path = self.interface.path
        if path.is_relative_to(Path.cwd()):
            path = path.relative_to(Path.cwd())
        variant = f":{self.interface.variant}" if self.interface.variant else ""
        return f"{path}{variant}"

    def lacking(self, stimuli: Stimuli, first: int) -> Iterator[str]:
        """Yield a message for each stimulus that misses a branch in its ``reaches``.

        ``first`` is the row of the first stimulus in ``hits``. If the line number of a branch has
        changed, the text of its condition identifies the branch. The text must then be unique.
        """
        named = [one for one in stimuli.stimuli if one.reaches]
        if self.why and named:
            yield f"whether the stimuli of {stimuli.name} reach what they name was not measured"
        for number, one in enumerate(() if self.why else stimuli.stimuli):
            missed = [text for text in one.reaches if not self._reached(text, first + number)]
            if missed:
                more = f" and {len(missed) - 1} more" if len(missed) > 1 else ""
                remedy = f"type: {MARK} again" if stimuli.generated else "change its steps"
                yield (
                    f"stimulus {number + 1} of {stimuli.name} does not reach {missed[0]}{more}; "
                    f"{remedy}"
                )

    def _reached(self, text: str, row: int) -> bool:
        at = [k for k, goal in enumerate(self.goals) if goal == text]
        if not at:  # of an older file, in which the calls of a function counted together
            at = [k for k, goal in enumerate(self.goals) if goal.startswith(f"{text} in ")]
            if at:
                return bool(self.hits[row, at].any())
            at = [k for k, goal in enumerate(self.goals) if _unnumbered(goal) == _unnumbered(text)]
        return len(at) == 1 and bool(self.hits[row, at[0]])

    def to_json(self) -> dict[str, Any]:
        return {
            "branches": len(self.branches),
            "open": [one.in_words for one in self.open],
            "not_measured": [self.why] if self.why else list(self.unmeasured),
        }


def _unnumbered(text: str) -> str:
    return _LINE.sub(r"\1", text)

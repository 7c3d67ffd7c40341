"""Count the runs until each benchmark is violated: ``python -m tools.falsification_table``.

The page ``docs/falsification-benchmarks.md`` describes the benchmarks and shows the table.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from statistics import mean, median
from typing import Any, ClassVar, NamedTuple

import numpy as np

from rtsim.core.extras import extra
from rtsim.models.falsification.requirements import CARS, TRANSMISSION, end, required
from rtsim.requirements.requirement import read_requirements
from rtsim.studies.designs.search_methods import SEARCH_METHODS, SearchMethod
from rtsim.studies.falsification import falsify
from rtsim.studies.input_signals import InputSignal

SPACING = 5.0
"""Time between two changes of an input in instance 2, s."""
PIECES = 12
"""Pieces of each input in instance 1, in which a program chooses the form of the inputs."""
SIGNALS = 2
"""Inputs of each benchmark."""
_BATCH = 4
_BLIND = 6
"""Rounds of :class:`Staged` without CMA-ES after a generation whose margins are equal."""


class Published(NamedTuple):
    """A published result: rate of falsification, mean and median number of runs, and its source."""

    rate: float
    mean: float
    median: float
    source: str


FALSTAR, EARLY, LATE = "FalStar 2020", "FalCAuN 2023", "FalCAuN 2024"
PUBLISHED = {
    ("AT1", 1): Published(1.0, 896.0, 896.0, LATE),
    ("AT1", 2): Published(1.0, 130.1, 122.5, EARLY),
    ("AT2", 1): Published(1.0, 256.0, 256.0, LATE),
    ("AT2", 2): Published(0.8, 727.9, 690.5, EARLY),
    ("AT6a", 1): Published(1.0, 457.9, 351.5, EARLY),
    ("AT6b", 1): Published(1.0, 600.0, 590.0, EARLY),
    ("AT6c", 1): Published(1.0, 898.0, 898.0, LATE),
    ("AT6c", 2): Published(1.0, 186.6, 173.0, EARLY),
    ("AT6abc", 1): Published(1.0, 1232.0, 1232.0, LATE),
    ("CC1", 1): Published(1.0, 1.6, 1.0, FALSTAR),
    ("CC1", 2): Published(1.0, 396.0, 396.0, LATE),
    ("CC2", 1): Published(1.0, 2.4, 2.0, FALSTAR),
    ("CC2", 2): Published(1.0, 76.0, 76.0, LATE),
    ("CC3", 1): Published(1.0, 195.2, 184.5, EARLY),
    ("CC3", 2): Published(1.0, 122.0, 122.0, LATE),
    ("CC4", 2): Published(0.7, 1605.1, 1446.0, LATE),
}
"""Smallest published median of each requirement and instance that could be found, from the files
that ``docs/falsification-benchmarks.md`` names."""


class Benchmark(NamedTuple):
    """A requirement, and the form of the inputs."""

    requirement: str
    instance: int

    @property
    def scenario(self) -> str:
        return "transmission" if self.requirement.startswith("AT") else "cars"

    def inputs(self) -> dict[str, InputSignal]:
        """Return the input signals of the benchmark."""
        file, source, highest = (
            (TRANSMISSION, "pedals", (100.0, 325.0))
            if self.scenario == "transmission"
            else (CARS, "leader", (1.0, 1.0))
        )
        until = end(required(file, self.requirement))
        count = PIECES
        times: tuple[float, ...] = ()
        if self.instance == 2:
            count = math.ceil(until / SPACING)
            times = tuple(SPACING * k for k in range(count))
        return {
            name: InputSignal(name, "pieces", count, 0.0, high, times=times)
            for name, high in zip((f"{source}.throttle", f"{source}.brake"), highest, strict=True)
        }


def benchmarks() -> list[Benchmark]:
    """Return each requirement in both instances."""
    names = [one.name for file in (TRANSMISSION, CARS) for one in read_requirements(file)]
    return [Benchmark(name, instance) for name in names for instance in (1, 2)]


class Staged(SearchMethod):
    """Constant inputs at their limits, and then several searches that take turns.

    The searches are random inputs that are at their limits in each piece, random inputs, CMA-ES
    over constant inputs, and CMA-ES from the best run so far. A random input has few or many
    pieces.
    """

    name: ClassVar[str] = "staged"

    def search(self, problem: Any) -> None:
        count = len(problem.low) // SIGNALS
        draw = np.random.Generator(np.random.Philox(problem.seed("search/staged")))
        corners = np.indices((2,) * SIGNALS).reshape(SIGNALS, -1).T.astype(float)
        units = np.repeat(draw.permutation(corners), count, axis=1)
        margins = problem.margins(problem.scaled(units))
        best = units[int(np.argmin(margins))], min(margins)
        constants = self._adapted(draw, np.full(SIGNALS, 0.5), 0.3)
        whole: Any = None
        blind = [0, 0]  # rounds without CMA-ES, after a generation with equal margins
        while True:
            for limits in (True, False):
                units = _random(draw, count, limits)
                best = _better(best, units, problem.margins(problem.scaled(units)))
            if blind[0]:
                blind[0] -= 1
            else:
                few = constants.ask()
                units = np.repeat(np.array(few), count, axis=1)
                margins = problem.margins(problem.scaled(units))
                constants.tell(few, margins)
                best = _better(best, units, margins)
                blind[0] = _BLIND if np.ptp(margins) == 0.0 else 0
                if constants.stop():
                    constants = self._adapted(draw, draw.random(SIGNALS), 0.3)
            if blind[1]:
                blind[1] -= 1
            else:
                if whole is None or whole.stop():
                    whole = self._adapted(draw, best[0], 0.25)
                many = whole.ask()
                margins = problem.margins(problem.scaled(np.array(many)))
                whole.tell(many, margins)
                best = _better(best, np.array(many), margins)
                blind[1] = _BLIND if np.ptp(margins) == 0.0 else 0

    @staticmethod
    def _adapted(draw: Any, mean: Any, step: float) -> Any:
        options = {
            "bounds": [0.0, 1.0], "verbose": -9, "verb_log": 0, "seed": math.nan,
            "randn": lambda *shape: draw.standard_normal(shape),
            **({"popsize": _BATCH} if len(mean) == SIGNALS else {}),
        }  # fmt: skip
        cma = extra("cma", "study", "the search method staged")
        return cma.CMAEvolutionStrategy(list(np.clip(mean, 0.02, 0.98)), step, options)


def _random(draw: Any, count: int, limits: bool) -> Any:
    """Return random inputs, of which some have fewer pieces than ``count``.

    The values are from 0 to 1; with ``limits``, they are 0 or 1.
    """
    out = []
    for _ in range(_BATCH):
        pieces = int(np.exp(draw.uniform(0.0, np.log(count + 1))))
        shape = SIGNALS, pieces
        values = draw.integers(0, 2, shape).astype(float) if limits else draw.random(shape)
        out.append(values[:, np.arange(count) * pieces // count].ravel())
    return np.array(out)


def _better(best: Any, units: Any, margins: Any) -> Any:
    """Return the candidate with the smallest margin, and this margin."""
    k = int(np.argmin(margins))
    return (units[k], margins[k]) if margins[k] < best[1] else best


class Measured(NamedTuple):
    """Searches for violations of one benchmark."""

    benchmark: Benchmark
    needed: list[int]
    """Runs up to the first violation, of each search that found one."""
    seeds: int
    runs: int
    """Runs of all searches."""
    seconds: float
    """Wall-clock time of all searches, s."""

    def row(self) -> str:
        """Return a row of the table, in Markdown."""
        found = len(self.needed)
        here = [f"{found / self.seeds:.0%}"]
        here += [f"{median(self.needed):.4g}", f"{mean(self.needed):.4g}"] if found else ["", ""]
        here += [f"{1e3 * self.seconds / self.runs:.3g}", f"{self.seconds / self.seeds:.3g}"]
        published = PUBLISHED.get((self.benchmark.requirement, self.benchmark.instance))
        there = ["", "", ""]
        if published:
            there = [f"{published.rate:.0%}", f"{published.median:.4g}", published.source]
        name = self.benchmark
        return " | ".join((f"| {name.requirement}", str(name.instance), *here, *there)) + " |"


HEAD = """\
| requirement | instance | rate | median runs | mean runs | ms a run | s a search | \
published rate | median runs | by |
|---|---|---|---|---|---|---|---|---|---|"""


def measure(benchmark: Benchmark, method: str, seeds: int, runs: int) -> Measured:
    """Search for violations of a benchmark with several seeds."""
    needed, total, seconds = [], 0, 0.0
    for seed in range(seeds):
        found = falsify(
            benchmark.scenario, benchmark.inputs(), requirement=benchmark.requirement,
            settings={"requirement": benchmark.requirement}, method=method, runs=runs, seed=seed,
            progress=False,
        )  # fmt: skip
        total, seconds = total + found.runs, seconds + found.seconds
        if found.needed is not None:
            needed.append(found.needed)
    return Measured(benchmark, needed, seeds, total, seconds)


def main() -> None:
    """Print the table while it is measured, and write the numbers to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="searches for each benchmark")
    parser.add_argument("--runs", type=int, default=300, help="largest number of runs of a search")
    parser.add_argument("--method", default="staged", help="search method")
    parser.add_argument("--only", nargs="*", default=[], help="names of requirements")
    parser.add_argument("--instance", type=int, choices=(1, 2), help="one instance only")
    parser.add_argument("-o", type=Path, help="JSON file for the numbers")
    given = parser.parse_args()
    print(HEAD)
    done = []
    for one in benchmarks():
        if given.only and one.requirement not in given.only:
            continue
        if given.instance not in (None, one.instance):
            continue
        done.append(measure(one, given.method, given.seeds, given.runs))
        print(done[-1].row(), flush=True)
        if given.o:
            given.o.write_text(json.dumps([one._asdict() for one in done], indent=1) + "\n")


SEARCH_METHODS.add(Staged.name, Staged)
if __name__ == "__main__":
    main()

"""The declaration of a study: factors, design, results and requirements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.tag import Duration
from rtsim.engine.faults.description import Given as GivenFault
from rtsim.engine.faults.description import gather
from rtsim.engine.faults.kind import Fault
from rtsim.requirements.requirement import Requirement
from rtsim.studies.designs import Design, MonteCarlo, Space, design_of_text
from rtsim.studies.factors import Pairs
from rtsim.studies.input_signals import InputSignal, input_signals
from rtsim.studies.interim_analysis import Stop
from rtsim.studies.measures import (
    Column,
    Formula,
    FromRecording,
    Limit,
    Required,
    Result,
    margin_name,
    requirements_of,
)
from rtsim.studies.reductions import Reduction, reduction_of_text
from rtsim.studies.texts import Value

OWN_COLUMNS = (
    "run", "seed", "state", "cause", "reason", "ended_s", "attempts", "wall_s", "digest",
    "sources", "sources_sha256",
)  # fmt: skip
FAILURES, EXTREMES = "failures", "extremes"


def _is_share(kind: str | float) -> bool:
    try:
        return 0.0 <= float(kind) <= 1.0
    except ValueError:
        return False


@dataclass(frozen=True)
class Study:
    """Declaration of many runs of one scenario, and of their results.

    To declare a study in a scenario file, return this object from a function ``study()``::

        def study():
            return Study(
                factors={"plant.stiffness": norm(2, 0.1), "latency": (0.0, 0.05)},
                design=LatinHypercube(runs=200),
                results={"peak": MaxAbs("plant.x", after=2)},
                requirements=["peak < 0.2"],
            )
    """

    factors: Mapping[str, object] = field(default_factory=dict)
    """Distribution of each factor, by name. The name of a factor is a name for ``Scenario.set``, or
    an argument of the scenario's function. A distribution is a frozen distribution of scipy.stats,
    a range ``(low, high)``, or a list of values.
    """
    design: Design | str = MonteCarlo()
    results: Mapping[str, Reduction | FromRecording | str] = field(default_factory=dict)
    """For each name of a result: a reduction, or a function of a :class:`Recording`."""
    requirements: Sequence[Required | Requirement | str] = ()
    """Limits of results, such as ``"peak < 0.2"``, and requirements in temporal logic: objects,
    texts ``"NAME: FORMULA"`` or TOML files. The requirements of the scenario count as well."""
    inputs: Mapping[str, InputSignal | str] | Sequence[InputSignal] = field(default_factory=dict)
    """Input signals by target, such as ``{"command.wanted": "pieces:8,-1,1"}``, or objects. Each
    control point is a factor."""
    correlation: Pairs = field(default_factory=dict)
    """Correlation coefficients of pairs of factors, such as ``{("a", "b"): 0.5}``."""
    seed: int = 0
    settings: Mapping[str, Value] = field(default_factory=dict)
    """Values that are the same in all runs."""
    until: Duration | None = None
    """End time of each run, s. The default is the end time of the scenario."""
    limit: float | None = None
    """Longest wall-clock time of one run, s. A run that takes longer is stopped, which requires
    worker processes."""
    keep: Sequence[str | float] = ()
    """Runs that are recorded: ``"failures"``, ``"extremes"`` (the runs with the smallest and
    largest value of each result), or a fraction of all runs such as 0.01.
    """
    histories: Sequence[str] = ()
    """Signals (``"component.name"``) whose time histories are stored for each run. A history has at
    most 200 times, from 0 to ``until``. ``rtsim study report`` plots the histories."""
    stop: Stop | str | None = None
    """Rule that ends the study before the last run of the design."""
    data: Sequence[str] = ()
    """Files and folders that the runs read in a way that rtsim cannot detect, such as a Parquet
    file. Paths are relative to the file of the study.
    """
    faults: Sequence[GivenFault] = ()
    """Faults of all runs, in addition to those of the scenario: fault files, or dicts. A factor can
    vary a number of a fault, such as ``"stuck.at"``. Paths are relative to the working folder.
    """
    scenario: str = ""
    """Name or file of the scenario. The default is the function ``scenario`` of the same file."""

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ScenarioError(f"seed is {self.seed!r}; give a whole number >= 0")
        if self.limit is not None and not self.limit > 0.0:
            raise ScenarioError(f"limit is {self.limit!r} s; give a time > 0 s")
        self._check_names()
        for kind in self.keep:
            if kind not in (FAILURES, EXTREMES) and not _is_share(kind):
                raise ScenarioError(
                    f"keep has the entry {kind!r}; give 'failures', 'extremes' or a share of the "
                    "runs from 0 to 1"
                )
        if isinstance(self.histories, str):
            raise ScenarioError(f"histories is {self.histories!r}; give a list of signals")
        if isinstance(self.data, str):
            raise ScenarioError(f"data is {self.data!r}; give a list of files")
        if isinstance(self.faults, str | Path | Mapping):
            raise ScenarioError(f"faults is {self.faults!r}; give a list of fault files or dicts")
        _ = self.injected
        for signal in self.histories:
            _ = Column(signal)
        self.sampled.check(self.space)
        example = self.sampled.example(self.space)
        self._check_columns((*OWN_COLUMNS, *example.marks), {**self.factors, **example.values})
        if self.stopping is not None:
            self.sampled.check_looks(self.stopping.looks)

    @cached_property
    def sampled(self) -> Design:
        """The design as an object."""
        return design_of_text(self.design) if isinstance(self.design, str) else self.design

    @cached_property
    def space(self) -> Space:
        """The factors as objects."""
        points = {name: one for s in self.signals for name, one in s.factors.items()}
        if both := sorted(points.keys() & self.factors.keys()):
            raise ScenarioError(f"{both[0]} is a factor and also a point of an input signal")
        for one in self.signals:
            if one.target in {*self.factors, *self.settings}:
                raise ScenarioError(
                    f"{one.target} has an input signal and also a value; leave one of them out"
                )
        return Space.of({**self.factors, **points}, self.seed, self.correlation)

    @cached_property
    def signals(self) -> list[InputSignal]:
        """The input signals as objects."""
        return input_signals(self.inputs)

    @cached_property
    def injected(self) -> tuple[Fault, ...]:
        """The faults as objects."""
        return gather(self.faults)

    @cached_property
    def reduced(self) -> dict[str, Result]:
        """The results as objects."""
        return {
            name: reduction_of_text(one) if isinstance(one, str) else one
            for name, one in self.results.items()
        }

    @cached_property
    def required(self) -> tuple[Required, ...]:
        """The requirements as objects."""
        return tuple(requirements_of(self.requirements))

    @cached_property
    def stopping(self) -> Stop | None:
        """The rule that stops the study early, or ``None``."""
        return Stop.of_text(self.stop) if isinstance(self.stop, str) else self.stop

    @property
    def runs(self) -> int:
        """Number of runs in the design."""
        return self.sampled.count(self.space)

    def _check_columns(self, taken: Sequence[str], factors: Collection[str]) -> None:
        names = [*taken, *factors, *self.results, *map(margin_name, self.required)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ScenarioError(
                f"{', '.join(twice)} names more than one column of the results; give each factor, "
                f"result and requirement a name of its own (taken: {', '.join(taken)})"
            )

    def _check_names(self) -> None:
        for requirement in self.required:
            if isinstance(requirement, Limit) and requirement.result not in self.results:
                raise UnknownName("result", requirement.result, self.results, "a requirement")
        names = [one.name for one in self.required]
        for one in self.required:
            if names.count(one.name) > 1:
                if isinstance(one, Formula):
                    raise ScenarioError(
                        f"two requirements have the name {one.name}; rename one of them"
                    )
                raise ScenarioError(
                    f"several requirements have the name {one.name}; write both limits in one "
                    f"requirement ('LOW<{one.result}<HIGH'), or give each a name of its own "
                    f"('NAME={one.result}<HIGH')"
                )
        self._check_columns(OWN_COLUMNS, self.factors)
        both = sorted(set(self.factors) & set(self.settings))
        if both:
            raise ScenarioError(
                f"{', '.join(both)} is a factor and also has a fixed value; leave one of them out"
            )

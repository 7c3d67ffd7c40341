"""The plan of a study as JSON data: everything that is needed to run or repeat the study.

The plan contains no pickled objects. For a result that is a function, the plan contains the name of
the function. The function itself is loaded from the scenario file.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.estimates import LEVEL
from rtsim.core.file_hash import file_hash
from rtsim.core.version import __version__
from rtsim.engine.faults.description import gather
from rtsim.engine.faults.kind import Fault
from rtsim.requirements.requirement import Requirement
from rtsim.scenario.loading import (
    file_of,
    find_maker,
    from_anywhere,
    known_scenarios,
    module_name,
    users_code,
)
from rtsim.scenario.trust import scenario_to_load
from rtsim.studies.designs import Design, Points, Space, design_of
from rtsim.studies.designs.base import Integers
from rtsim.studies.factors import Copula, Values, seed_of, spread_of
from rtsim.studies.input_signals import InputSignal
from rtsim.studies.interim_analysis import Stop
from rtsim.studies.measures import (
    Formula,
    History,
    Limit,
    Measures,
    Required,
    Result,
    grid_of,
    margin_column,
    margin_name,
    robustness_column,
)
from rtsim.studies.reductions import Reduction, reduction_of
from rtsim.studies.sources import SourcesChanged, digest_of, versions
from rtsim.studies.study import Study
from rtsim.studies.texts import Value

FORMAT = 2
BLOCK = 256
"""Number of runs whose factors are computed in one call. Each block starts at a multiple of this
number. The values of a run therefore do not depend on the other runs that are requested.
"""


def text_of(value: Value) -> str:
    """Return a text from which ``--set`` reads exactly the same value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def find_study(reference: str) -> Study | None:
    """Return the study that a scenario file declares in its function ``study``, or ``None``.

    ``reference`` is ``FILE.py``, or ``FILE.py:FUNCTION`` for another function. Raises
    :class:`ScenarioError` for an error in the file and for a function that does not return a
    :class:`Study`.
    """
    path = file_of(reference)
    if path is None:
        return None
    _, _, function = reference.partition(".py:")
    try:
        maker: Any = find_maker(f"{path}:{function or 'study'}")
    except UnknownName:
        if function:
            raise
        _check_no_study(path)
        return None
    with users_code(reference):
        found = maker()
    if not isinstance(found, Study):
        raise ScenarioError(
            f"{reference} returned a {type(found).__name__}, not a Study; return a Study, or name "
            "the function that does: FILE.py:FUNCTION"
        )
    return found


def _check_no_study(path: Path) -> None:
    module = sys.modules.get(module_name(path))
    names = [n for n, value in vars(module or object).items() if isinstance(value, Study)]
    if names:
        raise ScenarioError(
            f"{path} has a Study in the variable {names[0]}, which rtsim does not read; write a "
            f"function that returns it: def study(): return Study(...)"
        )


def _hash(reference: str) -> str | None:
    path = file_of(reference)
    try:
        return None if path is None else file_hash(path)
    except OSError as error:
        raise ScenarioError(
            f"file {path} cannot be read ({error.strerror}); give a Python file with a function "
            "scenario()"
        ) from None


def _declared(data: Sequence[str], study: Path | None, scenario: Path | None) -> list[str]:
    base = Path.cwd() if study is None else study.resolve().parent
    if scenario is not None:
        base = Path(os.path.relpath(base, scenario.resolve().parent))
    return [str(base / one) for one in data]


@dataclass(frozen=True)
class Job:
    """The part of a study that a worker needs: the scenario and the results."""

    scenario: str
    sha256: str | None
    study: str
    """Reference to the function that returns the study; empty if no result is a function."""
    results: Mapping[str, Any]
    requirements: list[dict[str, Any]]
    settings: Mapping[str, Value] = field(default_factory=dict)
    until: str | None = None
    limit: float | None = None
    histories: list[str] = field(default_factory=list)
    history_ns: int = 0
    rtsim: str = __version__
    versions: Mapping[str, str] = field(default_factory=versions)
    """Versions on which the results depend. Every worker must have the same versions."""
    study_sha256: str | None = None
    inputs: list[dict[str, Any]] = field(default_factory=list)
    """Input signals, whose control points are factors."""
    formulas: list[dict[str, Any]] = field(default_factory=list)
    """Requirements in temporal logic."""
    data: list[str] = field(default_factory=list)
    """Declared files and folders, relative to the folder of the scenario file if there is one."""
    faults: list[dict[str, Any]] = field(default_factory=list)
    """Entries of the faults of all runs, in addition to those of the scenario."""

    def to_text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def of_text(cls, text: str) -> Job:
        return cls(**json.loads(text))

    @cached_property
    def required(self) -> list[Required]:
        limits = [Limit.of(one) for one in self.requirements]
        return [*limits, *self.formula_requirements]

    @cached_property
    def formula_requirements(self) -> list[Formula]:
        return [Formula.of_plain(one) for one in self.formulas]

    @cached_property
    def signals(self) -> list[InputSignal]:
        return [InputSignal.of(one) for one in self.inputs]

    @cached_property
    def injected(self) -> tuple[Fault, ...]:
        return gather(self.faults)

    @cached_property
    def input_factors(self) -> frozenset[str]:
        """Names of the factors that are control points of input signals."""
        return frozenset(name for one in self.signals for name in one.factors)

    @cached_property
    def reduced(self) -> dict[str, Result]:
        """The results as objects.

        A result that is a function is loaded from the user's file.
        """
        found = find_study(self.study) if self.study else None
        out: dict[str, Result] = {}
        for name, plain in self.results.items():
            if "reduction" in plain:
                out[name] = reduction_of(plain)
            elif found is None or isinstance(found.reduced.get(name), Reduction | None):
                raise ScenarioError(
                    f"{self.study or self.scenario} has no function for the result {name}"
                )
            else:
                out[name] = found.reduced[name]
        return out

    def measures(self) -> Measures:
        histories = [History(signal, self.grid) for signal in self.histories]
        return Measures(self.reduced, self.required, histories)

    @cached_property
    def grid(self) -> Integers:
        return grid_of(self.history_ns)

    def check_unchanged(self) -> None:
        """Raise ``SourcesChanged`` if a source file has changed since the study began."""
        for reference, then in ((self.scenario, self.sha256), (self.study, self.study_sha256)):
            if then is not None and _hash(reference) != then:
                raise SourcesChanged(
                    f"{file_of(reference)}, or a module that it imports, is not the one with which "
                    "the study began; restore it and type rtsim study resume FOLDER, or start a "
                    "new study"
                )

    def sources_sha256(self, sources: str) -> str:
        """Return a hash of everything on which the results depend.

        ``sources`` contains the files that the runs have read.
        """
        return digest_of(self.sha256, self.study_sha256, dict(self.versions), sources)

    def check_trusted(self, source: str) -> Job:
        """Return a copy of the job if its code is trusted; raise ``TrustError`` otherwise.

        The job is stored in the file ``source``.
        """
        origin = {"reference": self.scenario, "sha256": self.sha256}
        scenario, study = scenario_to_load(origin, source), self.study
        if study:
            given = scenario_to_load({"reference": study, "sha256": self.study_sha256}, source)
            study = study if given == study else self._functions_in(given)
        return replace(self, scenario=scenario, study=study)

    def _functions_in(self, given: str) -> str:
        path, (_, _, function) = file_of(given), self.study.partition(".py:")
        if path is None:
            raise ScenarioError(
                f"the study is declared by a function {function}() of a file, but the scenario "
                f"{given} is not a file; give a file with this function: --scenario FILE.py"
            )
        return from_anywhere(f"{path}:{function}")


@dataclass(frozen=True)
class Plan:
    """A study and its scenario, as stored in the folder of the study."""

    job: Job
    seed: int
    design: Mapping[str, Any]
    factors: Mapping[str, Any]
    correlation: list[list[Any]] = field(default_factory=list)
    keep: list[str] = field(default_factory=list)
    stop: Mapping[str, Any] | None = None
    format: int = FORMAT

    @classmethod
    def of(cls, study: Study, reference: str) -> Plan:
        """Return the plan of ``study``. ``reference`` is the file or the name of the scenario."""
        path = file_of(reference)
        scenario = study.scenario or (str(path) if path is not None else reference)
        if file_of(scenario) is None and scenario not in known_scenarios():
            raise UnknownName("scenario", scenario, sorted(known_scenarios()), "rtsim scenarios")
        functions = [n for n, r in study.reduced.items() if not isinstance(r, Reduction)]
        if functions and path is None:
            raise ScenarioError(
                f"the result {functions[0]} is a function; return the study from a function "
                "study() of a scenario file, so that the workers find the function"
            )
        _, _, function = reference.partition(".py:")
        where = from_anywhere(f"{path}:{function or 'study'}") if functions else ""
        job = Job(
            scenario=from_anywhere(scenario),
            sha256=_hash(scenario),
            study=where,
            results={
                name: one.to_plain() if isinstance(one, Reduction) else {"function": name}
                for name, one in study.reduced.items()
            },
            requirements=[one.to_plain() for one in study.required if isinstance(one, Limit)],
            inputs=[one.to_plain() for one in study.signals],
            formulas=[one.to_plain() for one in study.required if not isinstance(one, Limit)],
            settings=dict(study.settings),
            until=None if study.until is None else str(study.until),
            limit=study.limit,
            histories=list(study.histories),
            data=_declared(study.data, path, file_of(scenario)),
            faults=[one.describe() for one in study.injected],
            study_sha256=_hash(where) if where else None,
        )
        space = study.space
        return cls(
            job,
            study.seed,
            study.sampled.to_plain(),
            {name: space.factors[name].to_plain() for name in space.names},
            [list(pair) for pair in space.copula.pairs],
            [str(kind) for kind in study.keep],
            None if study.stopping is None else study.stopping.to_plain(),
        )

    def to_text(self) -> str:
        return json.dumps({**self._plain, "digest": self.digest}, indent=1)

    @property
    def _plain(self) -> dict[str, Any]:
        plain = asdict(self)
        for key in (
            "data",
            "inputs",
            "formulas",
            "faults",
        ):  # earlier versions do not have these keys
            if not plain["job"][key]:
                del plain["job"][key]
        return plain

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the whole plan, as 64 hex digits.

        Each file of results contains the digest.
        """
        return hashlib.sha256(json.dumps(self._plain, sort_keys=True).encode()).hexdigest()

    @classmethod
    def of_text(cls, text: str, source: str | Path) -> Plan:
        """Return the plan from a JSON text; raise ``ScenarioError`` if invalid."""
        try:
            data = json.loads(text)
            if data.get("format") != FORMAT:
                raise ScenarioError(
                    f"{source} has the format {data.get('format')!r}, but this rtsim reads "
                    f"{FORMAT}; use the version of rtsim that made it"
                )
            digest = data.pop("digest", None)
            out = cls(**{**data, "job": Job(**data["job"])})
            _ = out.runs
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ScenarioError(f"{source} is not the plan of a study: {error}") from None
        if digest != out.digest:
            raise ScenarioError(
                f"{source} was changed after the study began: its contents have the digest "
                f"{out.digest}, but it states {digest}; restore the file, or start a new study"
            )
        return out

    def with_requirements(self, declared: Sequence[Requirement]) -> Plan:
        """Return a plan with the requirements ``declared``.

        Raises :class:`ScenarioError` if the plan then has no result, or has a column twice, and
        :class:`UnknownName` if the design or the rule for an early stop names another requirement.
        """
        out = replace(self, job=replace(self.job, formulas=[one.to_plain() for one in declared]))
        if not out.results:
            raise ScenarioError(
                "the study has no results; give at least one, such as "
                "results={'peak': Max('plant.x')}, or a requirement"
            )
        names = [*out.results, *out.margins, *out.factors, *out.example.marks]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ScenarioError(
                f"{', '.join(twice)} names two columns of the results; give the result, the factor "
                "or the requirement another name"
            )
        required = [one.name for one in out.job.required]
        out.sampled.check_names(out.results, required)
        stop, known = out.stopping, [*out.job.results, *required]
        if stop is not None and stop.result not in known:
            raise UnknownName("result", stop.result, known, "the rule for an early stop")
        return out

    def with_histories_until(self, ns: int) -> Plan:
        return replace(self, job=replace(self.job, history_ns=ns))

    @cached_property
    def sampled(self) -> Design:
        return design_of(self.design)

    @cached_property
    def space(self) -> Space:
        factors = {name: spread_of(plain) for name, plain in self.factors.items()}
        pairs = tuple((str(a), str(b), float(rho)) for a, b, rho in self.correlation)
        return Space(self.seed, factors, Copula(pairs))

    @cached_property
    def runs(self) -> int:
        return self.sampled.count(self.space)

    @cached_property
    def stopping(self) -> Stop | None:
        return None if self.stop is None else Stop.of(self.stop)

    @property
    def level(self) -> float:
        """Confidence level of all intervals, corrected for interim analyses."""
        return LEVEL if self.stopping is None else self.stopping.corrected

    @property
    def results(self) -> list[str]:
        return [*self.job.results, *(one.result for one in self.job.formula_requirements)]

    def lowered(self, requirement: str) -> str:
        """Return the column that a search minimises."""
        robustness = robustness_column(requirement)
        return robustness if robustness in self.results else margin_column(requirement)

    @property
    def margins(self) -> list[str]:
        return [margin_name(one) for one in self.job.required]

    @cached_property
    def example(self) -> Points:
        """An example of a run, whose values have the types of all runs."""
        return self.sampled.example(self.space)

    def block(self, number: int) -> Points:
        first = number * BLOCK
        return self.sampled.points(self.space, first, min(BLOCK, self.runs - first))


class Ordered(NamedTuple):
    """A run of a study: number, seed and factors."""

    run: int
    seed: int
    factors: Mapping[str, Value]
    marks: Mapping[str, Value]


def text_of_orders(orders: Sequence[Ordered]) -> str:
    """Return runs of a study as a JSON text.

    For a run with one factor, the text takes 50 bytes, and the objects take 430 bytes.
    """
    first = orders[0]
    rows = [[one.run, one.seed, *one.factors.values(), *one.marks.values()] for one in orders]
    return json.dumps([list(first.factors), list(first.marks), rows])


def orders_of_text(text: str) -> list[Ordered]:
    factors, marks, rows = json.loads(text)
    after = 2 + len(factors)
    return [
        Ordered(
            row[0], row[1],
            dict(zip(factors, row[2:after], strict=True)),
            dict(zip(marks, row[after:], strict=True)),
        )
        for row in rows
    ]  # fmt: skip


class Orders:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._number = -1
        self._listed: _Listed

    def __getitem__(self, run: int) -> Ordered:
        if not 0 <= run < self._plan.runs:
            raise ScenarioError(
                f"the study has no run {run}; its runs have the numbers 0 to {self._plan.runs - 1}"
            )
        number, row = divmod(run, BLOCK)
        if number != self._number:
            self._number, self._listed = number, _Listed(self._plan.seed, self._plan.block(number))
        return self._listed.order(run, row)


def ordered(plan: Plan, run: int, points: Points, row: int) -> Ordered:
    return _Listed(plan.seed, points).order(run, row)


def seed_of_draw(seed: int, draw: int) -> int:
    return seed_of(seed, f"run/{draw}")


class _Listed:
    def __init__(self, seed: int, points: Points) -> None:
        self._seed, self._draws = seed, points.draws.tolist()
        self._values, self._marks = _columns(points.values), _columns(points.marks)

    def order(self, run: int, row: int) -> Ordered:
        return Ordered(
            run,
            seed_of_draw(self._seed, self._draws[row]),
            {name: column[row] for name, column in self._values.items()},
            {name: column[row] for name, column in self._marks.items()},
        )


def _columns(arrays: Mapping[str, Values]) -> dict[str, list[Value]]:
    return {name: array.tolist() for name, array in arrays.items()}

"""Counterexamples: runs that violate a requirement, in files.

A counterexample file is TOML::

    format = 1
    scenario = "scenario.py"
    until = 2.5
    seed = 0

    [requirement]
    name = "SPEED"
    formula = "always motor.speed < 100 rad/s"

    [set]
    "motor.time_constant" = 0.5

    [[input]]
    target = "wanted.speed"
    kind = "pieces"
    low = -200.0
    high = 200.0
    points = [[0.0, 200.0], [1.5, -200.0]]

    [[fault]]
    name = "stuck"
    where = "motor.speed"
    kind = "stuck"
    at = 1.25

Each point is a time (s) and a value. A fault has the entries of a fault file. The paths are
relative to the folder of the file.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.core.tag import NS_PER_S, declared_ns
from rtsim.core.toml import (
    NEEDED,
    Key,
    ListKey,
    Place,
    TableKey,
    choice,
    named,
    number,
    open_toml,
    read,
    seconds,
    table,
    text,
    to_toml,
    whole,
)
from rtsim.engine.faults.description import Given, all_different, fault_of, fault_tables
from rtsim.engine.faults.entries import with_values
from rtsim.engine.faults.kind import Fault
from rtsim.record.recorders import MemoryRecorder, PooledRecorder
from rtsim.requirements.requirement import KEYS, Requirement
from rtsim.requirements.verdict import RequirementResult, check
from rtsim.runs.prepared import Prepared, finished, prepare
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.studies.input_signals import KINDS, PIECES, Changes, InputSignal, check_targets
from rtsim.studies.texts import Value

SUFFIX = ".counterexample.toml"
_FORMAT = 1
_MARK = "# A run that violates a requirement"
Point = tuple[int, float]
"""Time of a control point (ns), and its value."""


@dataclass(frozen=True)
class Waveform:
    """An input signal in a run, with the values of its control points.

    Except ``points``, the fields are those of ``InputSignal``.
    """

    target: str
    kind: str
    low: float
    high: float
    points: tuple[Point, ...]
    """The control points in the order of time. The first one is at 0 ns."""
    rate: float | None = None
    period: float | None = None

    @classmethod
    def of(cls, signal: InputSignal, factors: Mapping[str, Value], until_ns: int) -> Waveform:
        points = tuple(signal.control_points(factors, until_ns))
        period = None if signal.kind == PIECES else signal.period_ns(until_ns) / NS_PER_S
        low, high = float(signal.low), float(signal.high)
        return cls(signal.target, signal.kind, low, high, points, signal.rate, period)

    @property
    def signal(self) -> InputSignal:
        """The input signal, with control points at the times of this waveform."""
        kind = self.kind if len(self.points) > 1 else PIECES
        times = tuple(_s(ns) for ns, _ in self.points)
        return InputSignal(
            self.target, kind, len(times), self.low, self.high, self.rate, self.period, times
        )

    def changes(self, until_ns: int) -> Changes:
        """Return times (ns) and values of the changes in the run."""
        values = {f"{self.target}[{k}]": value for k, (_, value) in enumerate(self.points)}
        return self.signal.changes(values, until_ns)

    def within(self, until_ns: int) -> Waveform:
        """Return the waveform without control points after ``until_ns``."""
        inside = sum(ns < until_ns for ns, _ in self.points)
        more = 0 if self.kind == PIECES else 1  # the last samples depend on one point more
        return replace(self, points=self.points[: inside + more])


@dataclass(frozen=True)
class Counterexample:
    """A run that violates a requirement: scenario, values, inputs and end."""

    scenario: str
    """Name of the scenario, or ``FILE.py[:FUNCTION]``."""
    requirement: Requirement
    until_ns: int
    inputs: tuple[Waveform, ...] = ()
    values: Mapping[str, Value] = field(default_factory=dict)
    """Arguments of the scenario (``"case"``) and values of components (``"f16.cg"``)."""
    seed: int = 0
    faults: tuple[Fault, ...] = ()
    """Faults in addition to those of the scenario; ``values`` can contain other numbers for them,
    such as ``"stuck.at"``."""

    @classmethod
    def of_factors(
        cls,
        scenario: str,
        requirement: Requirement,
        until_ns: int,
        factors: Mapping[str, Value],
        signals: tuple[InputSignal, ...] = (),
        settings: Mapping[str, Value] | None = None,
        seed: int = 0,
        faults: tuple[Fault, ...] = (),
    ) -> Counterexample:
        """Return the run of a search with the given factors.

        ``factors`` contains the control points of ``signals``, as :attr:`InputSignal.factors` names
        them. ``settings`` and ``faults`` are those that all runs of the search share.
        """
        taken = {name for one in signals for name in one.factors}
        values = {name: value for name, value in factors.items() if name not in taken}
        waves = tuple(Waveform.of(one, factors, until_ns) for one in signals)
        values = {**(settings or {}), **values}
        return cls(scenario, requirement, until_ns, waves, values, seed, faults)

    @property
    def name(self) -> str:
        return re.sub(r"\W+", "_", self.requirement.name.lower()).strip("_")

    def loaded(self) -> Scenario:
        """Return the scenario with the arguments and faults of this run, but without its values."""
        arguments = {name: one for name, one in self.values.items() if "." not in name}
        return load_scenario(self.scenario, arguments, lambda made: made.faults(*self.faults))

    def make(
        self,
        scenario: str | None = None,
        settings: Mapping[str, str] | None = None,
        faults: Sequence[Given] = (),
    ) -> Scenario:
        """Return the scenario with the values, inputs and end of this run.

        Args:
            scenario: Another scenario with the same signals, for example with C code.
            settings: Values that replace those of the counterexample, by name.
            faults: Further faults, such as fault files.

        Raises :class:`ScenarioError` if the scenario rejects a value or an input.
        """
        values = {**self.values, **(settings or {})}
        for wave in self.inputs:
            if wave.target in values:
                raise ScenarioError(
                    f"{wave.target} has an input in the counterexample and also a value; leave "
                    "out one of them"
                )
        made = load_scenario(
            scenario or self.scenario, values, lambda new: new.faults(*self.faults, *faults)
        )
        self._apply(made)
        return made

    def _apply(self, scenario: Scenario) -> None:
        for wave in self.inputs:
            scenario.drive(wave.target, wave.changes(self.until_ns))
        # The run is as short as this requirement permits; it can leave the others undecided.
        scenario.requirements = (self.requirement,)
        scenario.until_ns = self.until_ns

    def check(self) -> RequirementResult:
        """Run the scenario as fast as possible, and return the verdict of the requirement.

        Raises the errors of the scenario and of the run.
        """
        recorder = MemoryRecorder()
        simulate(self.make(), seed=self.seed, recorder=recorder, progress=False)
        return check([self.requirement], recorder.recording())[0]

    def to_json(self) -> dict[str, Any]:
        """Return the values, the inputs and the faults as JSON data, with times in s."""
        faults, _ = with_values(self.faults, self.values)
        return {
            "values": dict(self.values),
            "seed": self.seed,
            "until_s": _s(self.until_ns),
            "inputs": {one.target: [[_s(ns), v] for ns, v in one.points] for one in self.inputs},
            **({"faults": [one.describe() for one in faults]} if faults else {}),
        }

    # -- files

    @classmethod
    def open(cls, path: str | Path) -> Counterexample:
        """Read a counterexample file. Raises :class:`ScenarioError` with file and line."""
        file = open_toml(Path(path), "a counterexample file", f"speed{SUFFIX}")
        top = read(file.data, _KEYS, file.place)
        if top["format"] != _FORMAT:
            problem = f"format = {top['format']!r} is of another version of rtsim"
            raise top.error("format", f"{problem}; this version reads format {_FORMAT}")
        requirement = Requirement(**top["requirement"])
        inputs = tuple(_read_input(one, k, file.place) for k, one in enumerate(top["input"]))
        with file.place.checking():
            check_targets(wave.target for wave in inputs)
        scenario = _moved(top["scenario"], lambda one: Path(path).parent / one)
        faults = [
            fault_of(one, file.place.inner("fault", k, label=""))
            for k, one in enumerate(top["fault"])
        ]
        return cls(
            scenario, requirement, top["until"], inputs, dict(top["set"]), top["seed"],
            all_different(faults),
        )  # fmt: skip

    def save(self, path: Path) -> None:
        """Write the counterexample to ``path``.

        Raises ``ScenarioError`` if ``path`` is another file, or cannot be written.
        """
        _write(path, self._lines(path))

    def save_test(self, path: Path, example: Path) -> None:
        """Write a pytest test that repeats the run of a saved counterexample.

        Errors are those of :meth:`save`.
        """
        said = f"{self.requirement.name}: {self.requirement.text or self.requirement.formula}"
        file = Path(os.path.relpath(example, path.parent)).as_posix()
        lines = [
            f"{_MARK}. {' '.join(said.split())}",
            f"def test_{self.name}(counterexample):",
            f"    counterexample({to_toml(file)}).assert_ok()",
        ]
        _write(path, lines)

    def _lines(self, path: Path) -> list[str]:
        folder = path.absolute().parent
        scenario = _moved(self.scenario, lambda one: Path(os.path.relpath(one, folder)))
        out = [
            f"{_MARK}. Run it: rtsim run {scenario} --counterexample {path.name}",
            f"format = {_FORMAT}",
            f"scenario = {to_toml(scenario)}",
            f"until = {to_toml(_s(self.until_ns))}",
            f"seed = {self.seed}",
            "",
            "[requirement]",
            *(f"{key} = {to_toml(value)}" for key, value in self.requirement.to_plain().items()),
        ]
        faults, values = with_values(self.faults, self.values)
        if values:
            out += ["", "[set]"]
            out += [f"{to_toml(name)} = {to_toml(value)}" for name, value in values.items()]
        for wave in self.inputs:
            points = [[_s(ns), value] for ns, value in wave.points]
            given = {**{key: getattr(wave, key) for key in _INPUT}, "points": points}
            out += ["", "[[input]]"]
            out += [f"{key} = {to_toml(v)}" for key, v in given.items() if v is not None]
        return [*out, *fault_tables(faults)]


class Runs:
    """Repeat counterexamples in this process, with one scenario for many runs."""

    def __init__(self) -> None:
        self._prepared: dict[str, Prepared] = {}

    def check(self, one: Counterexample) -> RequirementResult:
        arguments = sorted((n, v) for n, v in one.values.items() if "." not in n)
        key = repr((one.scenario, arguments, one.faults))
        if key not in self._prepared:
            self._prepared[key] = prepare(one.loaded())
        result = finished(
            self._prepared[key].run_into(
                lambda pool: PooledRecorder(pool, None),
                seed=one.seed,
                set={name: value for name, value in one.values.items() if "." in name},
                until=f"{one.until_ns}/{NS_PER_S}",
                changes={wave.target: wave.changes(one.until_ns) for wave in one.inputs},
            )
        )
        return check([one.requirement], result)[0]

    def violates(self, one: Counterexample, most: float = 0.0, least: float = -math.inf) -> bool:
        """Return whether a run violates the requirement, with a robustness within two bounds.

        The bounds are ``least`` and ``most``. A run with an error counts as no violation.
        """
        try:
            found = self.check(one)
        except Exception:
            return False
        return found.result is Outcome.FAILED and least <= found.robustness <= most


_POINT = ListKey("a time in s and a value, such as [1.5, -200.0]", of=number(), count=range(2, 3))
_INPUT = {
    "target": text(wanted='the source or parameter, such as "wanted.speed"'),
    "kind": choice(KINDS, default=PIECES, what="kind of input signal"),
    "low": number(),
    "high": number(),
    "rate": number(above=0.0, default=None),
    "period": number(above=0.0, default=None, unit="s"),
    "points": ListKey("a list of points [[time, value], ...]", of=_POINT, count=range(1, 100_000)),
}


def _setting(given: Any) -> Value:
    if not isinstance(given, bool | int | float | str):
        raise TypeError
    return given


def _format(given: Any) -> int:
    if type(given) is not int:  # true and 1.0 equal 1
        raise TypeError
    return given


_KEYS = {
    "format": Key(f"a whole number, such as format = {_FORMAT}", convert=_format),
    "scenario": text(wanted='the scenario, such as "scenario.py"'),
    "until": seconds(default=NEEDED),
    "seed": whole(default=0),
    "requirement": table(KEYS, "[requirement]", default=NEEDED),
    "set": named(Key("a number or a text", convert=_setting), "[set]", default={}),
    "input": ListKey("[[input]] for each input", (), of=table(_INPUT)),
    "fault": ListKey("[[fault]] for each fault", (), of=TableKey(of=Key())),
}


def _read_input(one: Mapping[str, Any], k: int, place: Place) -> Waveform:
    with place.inner("input", k).checking():
        what = "time of a control point"
        points = tuple((declared_ns(t, what), value) for t, value in one["points"])
        wave = Waveform(**{**one, "points": points})
        _ = wave.signal
        for ns, value in points:
            if not wave.low <= value <= wave.high:
                raise ScenarioError(
                    f"the point [{_s(ns):g}, {value:g}] of {wave.target} is outside its range from "
                    f"{wave.low:g} to {wave.high:g}"
                )
        return wave


def _s(ns: int) -> float:
    return ns / NS_PER_S


def _moved(scenario: str, to: Callable[[Path], Path]) -> str:
    path, dot, function = scenario.partition(".py")
    if not dot:
        return scenario
    return f"{to(Path(path + dot)).as_posix()}{function}"


def check_replaceable(path: Path) -> None:
    """Raise ``ScenarioError`` if ``path`` exists and is no counterexample and no test."""
    mark = _MARK.encode()
    try:
        if path.exists() and path.read_bytes()[: len(mark)] != mark:
            raise ScenarioError(
                f"{path} exists and contains no counterexample, so it is not overwritten; give "
                "another name"
            )
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror or error}") from None


def _write(path: Path, lines: Sequence[str]) -> None:
    check_replaceable(path)
    try:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise ScenarioError(f"cannot write {path}: {error.strerror or error}") from None

"""The file of stimuli, ``NAME.stimuli.toml`` beside the interface file ``NAME.toml``.

::

    format = 1
    controller = "motor"
    inputs = ["setpoint", "speed"]

    [[stimulus]]
    reaches = ["motor.c:17: wanted < -LIMIT is true"]
    steps = [
      { inputs = [0.0, 0.0] },
      { inputs = [0.0, 900.0], times = 3 },
    ]

``rtsim sil generate`` writes it, and ``rtsim sil test`` reads it.  Each stimulus begins with a
controller that was just initialised.  A person may add entries.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hitl.interface import Field, Interface
from hitl.interface.ranges import Range, range_of, short, usual_of
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signals, Vector
from rtsim.core.toml import open_toml

# Values that the interface file allows for an input.

_ROUNDING = 1e-6
"""Share of a count by which a scaled value may exceed a limit through rounding."""
_ROUNDING_32 = 2.0**-24
"""Share by which a value in float32 may exceed a limit through rounding."""


def inputs_by_column(interface: Interface) -> Mapping[str, Field]:
    """Return the input that each input column belongs to."""
    return {name: place for place in interface.input_fields for name in place.signal.columns}


def _spare(place: Field, limit: float) -> float:
    """Return by how much a value may exceed ``limit`` through rounding to the input's type."""
    if "int" in place.signal.type:
        return _ROUNDING * abs(place.scale)
    return abs(limit) * _ROUNDING_32 if place.signal.type == "float32" and limit else 0.0


def why_refused(place: Field, value: float) -> str:
    """Return why the interface file does not allow ``value`` for an input, as a clause; or ""."""
    signal = place.signal
    if math.isnan(value):
        return "" if any(map(math.isnan, place.specials)) else "NaN needs nan = true"
    if math.isinf(value):
        side = "high = inf" if value > 0 else "low = -inf"
        return "" if value in place.specials else f"an infinite value needs {side}"
    if signal.type == "bool" and value not in (0.0, 1.0):
        return "a bool is 0 or 1"
    for limit, excess, name in (
        (signal.low, signal.low - value, "low"), (signal.high, value - signal.high, "high"),
    ):  # fmt: skip
        if excess > _spare(place, limit):
            return f"{name} = {limit:g}"
    return "" if place.holds(value) else f"{signal.type} cannot hold it"


class StimuliError(RtsimError):
    """Stimuli cannot be generated, or a file of stimuli cannot be read; the message says why."""


Table = NDArray[np.float64]
SUFFIX = ".stimuli.toml"
MARK = "rtsim sil generate"
"""A text in the first line, by which an older file is recognised before it is overwritten."""
_FORMAT = 1
_KEYS = ("format", "controller", "inputs", "generated", "stimulus")
_OF_ONE = ("reaches", "fails", "description", "steps")
_OF_STEP = ("inputs", "times")
MOST_BYTES = 16 << 20
"""Largest file of stimuli, bytes."""
MOST_STEPS = 1_000_000
"""Most steps of all stimuli of a file together."""


@dataclass(frozen=True, eq=False)
class Stimulus:
    """An input sequence, from the start of the controller."""

    steps: Table
    """The inputs (k, m), with columns in the order of the interface file's inputs."""
    reaches: tuple[str, ...] = ()
    """The branches for which the sequence was found."""
    fails: str = ""
    """How the C code failed when the sequence was found; empty if it did not fail."""


@dataclass(frozen=True, eq=False)
class Stimuli:
    """The stimuli of a controller."""

    controller: str
    inputs: tuple[str, ...]
    """The names of the input columns."""
    stimuli: tuple[Stimulus, ...]
    generated: Mapping[str, Any] = field(default_factory=dict)
    """How the file was generated, such as the seed; empty for a file written by hand."""
    path: Path | None = None

    @property
    def steps(self) -> int:
        """Number of steps of all stimuli together."""
        return sum(len(one.steps) for one in self.stimuli)

    def outdated(self, interface: Interface) -> str:
        """Return a sentence if the stimuli were generated for other C code; else an empty text."""
        known = self.generated.get("sha256")
        if known is None or known == interface.sha256:
            return ""
        return (
            f"{self.name} was generated before {interface.path.name} or its sources changed, so "
            f"its stimuli may not reach all branches; type: {MARK} again"
        )

    @property
    def name(self) -> str:
        """The name of the file."""
        return "the stimuli" if self.path is None else self.path.name

    def ordered(self, layout: Signals) -> list[Table]:
        """Return the steps of each stimulus with its columns in the order of ``layout``.

        Raises :class:`StimuliError` if the columns are not those of ``layout``.
        """
        if sorted(self.inputs) != sorted(layout.columns):
            raise StimuliError(
                f"{self.path or 'the stimuli'}: inputs are {', '.join(self.inputs) or 'none'}; the "
                f"controller {self.controller} has {', '.join(layout.columns) or 'none'}; generate "
                f"the file again: {MARK}"
            )
        order = [self.inputs.index(name) for name in layout.columns]
        return [np.ascontiguousarray(one.steps[:, order]) for one in self.stimuli]

    def text(self) -> str:
        """Return the contents of the file; equal stimuli give equal bytes."""
        return "\n".join(_lines(self)) + "\n"


def beside(interface: Interface) -> Path:
    """Return the path of the stimuli that belong to an interface file."""
    return interface.path.with_suffix(SUFFIX)


def stimuli_of(
    interfaces: Mapping[str, Interface | None], given: Mapping[str, Path] | None = None
) -> dict[str, Stimuli]:
    """Return the stimuli by controller name.

    They are read from the files ``given`` by name, or else from the file beside the interface file,
    if there is one.  Raises :class:`StimuliError` for a file that cannot be read, that belongs to
    another controller, or that has a value which its interface file does not allow.
    """
    out = {}
    for name, interface in interfaces.items():
        path = (given or {}).get(name)
        if path is None:
            if interface is None or not beside(interface).is_file():
                continue
            path = beside(interface)
        stimuli = load_stimuli(path, interface)
        if interface is not None and stimuli.controller != interface.name:
            raise StimuliError(
                f"{path} has stimuli for the controller {stimuli.controller}, but "
                f"{interface.path.name} is {interface.name}; give the file of {interface.name}"
            )
        out[name] = stimuli
    return out


def load_stimuli(path: Path, interface: Interface | None = None) -> Stimuli:
    """Read a file of stimuli for the controller ``interface``.

    Raises :class:`StimuliError`, with the entry, for any error.
    """
    what = f"a file of stimuli, or write one: {MARK}"
    file = open_toml(path, what, error=StimuliError, most=MOST_BYTES)
    return _Reader(path, interface).stimuli(file.data)


class _Reader:
    def __init__(self, path: Path, interface: Interface | None) -> None:
        self.path, self.interface = path, interface
        self._steps = 0
        self._inputs: list[tuple[str, Field]] = []
        """The inputs that the interface file declares, in the order of the columns."""

    def stimuli(self, data: Mapping[str, Any]) -> Stimuli:
        self._known(data, _KEYS, "the top level")
        if data.get("format") != _FORMAT:
            raise self._error(
                f"format is {data.get('format')!r}, but this version of rtsim reads format "
                f"{_FORMAT}; generate the file again: {MARK}"
            )
        controller = data.get("controller")
        if not isinstance(controller, str) or not controller:
            raise self._error('controller is missing or not a text; write controller = "motor"')
        inputs = self._texts(data.get("inputs"), "inputs")
        of = self.interface if self.interface and self.interface.name == controller else None
        known = {} if of is None else inputs_by_column(of)
        self._inputs = [(n, known[n]) for n in inputs] if set(inputs) <= set(known) else []
        generated = data.get("generated", {})
        listed = data.get("stimulus", [])
        if not isinstance(generated, dict):
            raise self._error("generated is not a table; write [generated], or leave it out")
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            raise self._error("stimulus is not a list of tables; write [[stimulus]]")
        if not listed:
            raise self._error(f"there is no [[stimulus]]; delete the file, or type: {MARK}")
        stimuli = tuple(self._one(one, len(inputs), k + 1) for k, one in enumerate(listed))
        return Stimuli(controller, inputs, stimuli, generated, self.path)

    def _one(self, data: Mapping[str, Any], width: int, number: int) -> Stimulus:
        where = f"stimulus {number}"
        self._known(data, _OF_ONE, where)
        listed = data.get("steps")
        if not isinstance(listed, list) or not listed:
            raise self._error(
                f"{where} has no steps; write steps = [{{ inputs = [...], times = 1 }}]"
            )
        rows: list[list[float]] = []
        times: list[int] = []
        for step, row in enumerate(listed):
            place = f"{where}, entry {step + 1} of its steps"
            if not isinstance(row, dict):
                raise self._error(f"{place} is not a table; write {{ inputs = [...] }}")
            self._known(row, _OF_STEP, place)
            rows.append(self._values(row.get("inputs"), width, place))
            times.append(self._times(row.get("times", 1), place))
        table = np.array(rows, np.float64).reshape(len(rows), width)
        fails = data.get("fails", "")
        if not isinstance(fails, str):
            raise self._error(f"{where}: fails is not a text")
        reaches = self._texts(data.get("reaches", []), f"reaches of {where}")
        return Stimulus(np.repeat(table, times, axis=0), reaches, fails)

    def _values(self, given: object, width: int, place: str) -> list[float]:
        numbers = [
            float(v)
            for v in (given if isinstance(given, list) else ())
            if (isinstance(v, int | float) and not isinstance(v, bool) and abs(v) <= 2**1023)
            or isinstance(v, float)
        ]
        if not isinstance(given, list) or len(numbers) != len(given) or len(given) != width:
            raise self._error(f"{place}: inputs is {given!r}; write a list of {width} numbers")
        for (name, row), value in zip(self._inputs, numbers, strict=False):
            if why := why_refused(row, value):
                declared = f"{self.interface.path.name}:{row.line}" if self.interface else ""
                raise self._error(
                    f"{place}: {name} = {value!r} is not allowed: {why} ({declared}); change the "
                    "value or the interface file"
                )
        return numbers

    def _times(self, given: object, place: str) -> int:
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise self._error(f"{place}: times is {given!r}; write a whole number >= 1")
        self._steps += given
        if self._steps > MOST_STEPS:
            raise self._error(f"{place}: the stimuli have more than {MOST_STEPS} steps")
        return given

    def _texts(self, given: object, what: str) -> tuple[str, ...]:
        if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
            raise self._error(f'{what} is not a list of texts; write ["..."]')
        return tuple(given)

    def _known(self, data: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
        for key in data:
            if key not in keys:
                raise self._error(f"{where} has no key {key!r}; known: {', '.join(keys)}")

    def _error(self, text: str) -> StimuliError:
        return StimuliError(f"{self.path}: {text}")


def _lines(given: Stimuli) -> Iterator[str]:
    yield f"# Input sequences for rtsim sil test.  Written by {MARK}; you may add entries by hand."
    yield f"format = {_FORMAT}"
    yield f"controller = {_quoted(given.controller)}"
    yield f"inputs = [{', '.join(map(_quoted, given.inputs))}]"
    if given.generated:
        yield "\n[generated]"
        yield from (f"{key} = {_plain(value)}" for key, value in given.generated.items())
    for one in given.stimuli:
        yield "\n[[stimulus]]"
        yield "reaches = ["
        yield from (f"  {_quoted(text)}," for text in one.reaches)
        yield "]"
        if one.fails:
            yield f"fails = {_quoted(one.fails)}"
        yield "steps = ["
        yield from (f"  {row}," for row in _rows(one.steps))
        yield "]"


def _rows(table: Table) -> Iterator[str]:
    at = 0
    while at < len(table):
        end = at + 1
        while end < len(table) and table[end].tobytes() == table[at].tobytes():
            end += 1
        times = f", times = {end - at}" if end - at > 1 else ""
        yield f"{{ inputs = [{', '.join(map(_number, table[at].tolist()))}]{times} }}"
        at = end


def _number(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return repr(value)


def _plain(value: object) -> str:
    return _quoted(value) if isinstance(value, str) else repr(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# The values that generated stimuli may give to the inputs of a controller.


class Ranges:
    """The ranges of all input columns, with values that are worth a try.

    A range is that of the interface file (``low``, ``high``) and of the C type.  Where the file
    gives none, ``inputs`` (k, m), the inputs of a run, show which values are usual: the range is
    symmetric and twice as wide.  ``numbers`` are those in the text of the C code.
    """

    def __init__(
        self, interface: Interface, inputs: Table | None = None, numbers: Iterable[float] = ()
    ) -> None:
        self.columns: list[Range] = []
        known = sorted(set(numbers))
        largest = max((abs(n) for n in known if abs(n) < 1e6), default=0.0)
        for place in interface.input_fields:
            for name in place.signal.columns:
                at = len(self.columns)
                seen = None if inputs is None or not len(inputs) else inputs[:, at]
                self.columns.append(range_of(place, name, usual_of(seen, largest)))
        self.values = [_values(one, known) for one in self.columns]

    def __len__(self) -> int:
        return len(self.columns)

    def fitted(self, table: Table) -> Table:
        """Return a copy of ``table`` (k, m) with the nearest allowed values."""
        out = np.array(table, np.float64)
        for at, one in enumerate(self.columns):
            changes = np.flatnonzero(np.r_[True, out[1:, at] != out[:-1, at]])
            for start, end in zip(changes, [*changes[1:], len(out)], strict=True):
                out[start:end, at] = one.fitted(float(out[start, at]))
        return out

    def holds(self, table: Table) -> bool:
        """Return True if all values of ``table`` are allowed."""
        return bool(np.array_equal(self.fitted(table), table, equal_nan=True))

    @property
    def rest(self) -> Vector:
        """(m,): the values nearest to 0."""
        return np.array([one.rest for one in self.columns])

    def drawn(self, rng: np.random.Generator, column: int) -> float:
        """Draw a value for a column: a special one, one of those worth a try, or any."""
        one, known = self.columns[column], self.values[column]
        if known and rng.random() < 0.4:
            return known[int(rng.integers(len(known)))]
        share = rng.random()
        if rng.random() < 0.3:  # near one end, or near 0 where both ends are far away
            share = share * 10.0 ** -float(rng.integers(1, 5))
            centre = one.rest if rng.random() < 0.5 else (one.low, one.high)[int(rng.integers(2))]
            sign = 1.0 if rng.random() < 0.5 else -1.0
            return one.fitted(short(centre + sign * share * one.width, 3))
        return one.fitted(short(one.low + share * one.width, 3))


def _values(one: Range, numbers: Sequence[float]) -> list[float]:
    tried = [one.low, one.high, 0.0, 1.0, -1.0, (one.low + one.high) / 2]
    for number in numbers:
        tried += [number, -number]
        if one.grain:
            tried += [number - one.grain, number + one.grain]
        else:
            tried += [short(number * 1.01, 4), short(number * 0.99, 4)]
    inside = [v for v in tried if one.low <= v <= one.high]
    return list(dict.fromkeys([*(one.fitted(v) for v in inside), *one.specials]))

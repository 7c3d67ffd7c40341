"""Read stimuli files ``NAME.stimuli.toml``, beside the interface file ``NAME.toml``.

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

``rtsim sil generate`` writes the file, and ``rtsim sil test`` reads it. Each stimulus begins with a
new controller. Entries can also be written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hitl.interface import Field, Interface
from hitl.interface.ranges import Range, range_of, short, usual_of
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signals, Vector
from rtsim.core.toml import (
    Entries,
    Key,
    ListKey,
    named,
    open_toml,
    read,
    table,
    text,
    to_toml,
    whole,
)

# -- values that the interface file allows for an input

_ROUNDING = 1e-6
"""Fraction of a count by which rounding may move a scaled value beyond a limit."""
_ROUNDING_32 = 2.0**-24
"""Fraction by which rounding may move a float32 value beyond a limit."""


def inputs_by_column(interface: Interface) -> Mapping[str, Field]:
    return {name: place for place in interface.input_fields for name in place.signal.columns}


def _spare(place: Field, limit: float) -> float:
    if "int" in place.signal.type:
        return _ROUNDING * abs(place.scale)
    return abs(limit) * _ROUNDING_32 if place.signal.type == "float32" and limit else 0.0


def why_refused(place: Field, value: float) -> str:
    """Return why an input cannot have this value, or ""."""
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
    """Stimuli cannot be generated or read, for the reason in the message."""


Table = NDArray[np.float64]
SUFFIX = ".stimuli.toml"
MARK = "rtsim sil generate"
"""Text in the first line of a generated file, which identifies it before it is overwritten."""
_FORMAT = 1
MOST_BYTES = 16 << 20
"""Greatest size of a stimuli file, bytes."""
MOST_STEPS = 1_000_000
"""Greatest number of steps of all stimuli of a file."""


def _number(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise TypeError
    return float(given)


_STEP = {
    "inputs": ListKey("a list of numbers", of=Key("a number", convert=_number)),
    "times": whole(1, default=1),
}
_TEXTS = ListKey('a list of texts, such as ["..."]', of=text())
_STEPS = "steps = [{ inputs = [...], times = 1 }]"
_STIMULUS = {
    "reaches": replace(_TEXTS, default=()),
    "fails": text("", empty=True),
    "description": text("", empty=True),
    "steps": ListKey(_STEPS, of=table(_STEP), count=range(1, MOST_STEPS)),
}
_FILE = {
    "format": Key(),
    "controller": text(wanted='the name of the controller, such as "motor"'),
    "inputs": _TEXTS,
    "generated": named(Key(), "[generated], or leave it out"),
    "stimulus": ListKey("[[stimulus]] for each input sequence", (), of=table(_STIMULUS)),
}


@dataclass(frozen=True, eq=False)
class Stimulus:
    """An input sequence from the start of the controller."""

    steps: Table
    """The inputs, shape (k, m), with columns in the order of the interface file's inputs."""
    reaches: tuple[str, ...] = ()
    """The branches for which the sequence was found."""
    fails: str = ""
    """The failure of the C code when the sequence was found, or ""."""


@dataclass(frozen=True, eq=False)
class Stimuli:
    """The stimuli of a controller."""

    controller: str
    inputs: tuple[str, ...]
    """Names of the input columns."""
    stimuli: tuple[Stimulus, ...]
    generated: Mapping[str, Any] = field(default_factory=dict)
    """Origin of the file, such as the seed; empty for a file written by hand."""
    path: Path | None = None

    @property
    def steps(self) -> int:
        return sum(len(one.steps) for one in self.stimuli)

    def outdated(self, interface: Interface) -> str:
        """Return a sentence if the stimuli are for other C code, or ""."""
        known = self.generated.get("sha256")
        if known is None or known == interface.sha256:
            return ""
        return (
            f"{self.name} was generated before {interface.path.name} or its sources changed, so "
            f"its stimuli may not reach all branches; type: {MARK} again"
        )

    @property
    def name(self) -> str:
        return "the stimuli" if self.path is None else self.path.name

    def ordered(self, layout: Signals) -> list[Table]:
        """Return the steps of each stimulus, with columns in the order of ``layout``.

        Raises ``StimuliError`` for other columns.
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
        return "\n".join(_lines(self)) + "\n"


def beside(interface: Interface) -> Path:
    return interface.path.with_suffix(SUFFIX)


def stimuli_of(
    interfaces: Mapping[str, Interface | None], given: Mapping[str, Path] | None = None
) -> dict[str, Stimuli]:
    """Return the stimuli by controller name.

    The stimuli are read from the files ``given``, by default from the file beside the interface
    file. Raises ``StimuliError`` for an invalid file, and for a file of another controller.
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
    """Read a stimuli file for a controller.

    Raises ``StimuliError`` for an error in the file; the message names the wrong entry.
    """
    what = f"a file of stimuli, or write one: {MARK}"
    file = open_toml(path, what, error=StimuliError, most=MOST_BYTES)
    found = file.data.get("format")
    if found != _FORMAT:
        problem = f"format is {found!r}, but this version of rtsim reads format {_FORMAT}"
        raise file.place.error("format", f"{problem}; generate the file again: {MARK}")
    top = read(file.data, _FILE, file.place)
    if not top["stimulus"]:
        problem = f"there is no [[stimulus]]; delete the file, or type: {MARK}"
        raise top.error("stimulus", problem)
    inputs = top["inputs"]
    of = interface if interface and interface.name == top["controller"] else None
    known = {} if of is None else inputs_by_column(of)
    fields = [(n, known[n]) for n in inputs] if set(inputs) <= set(known) else []
    count, stimuli = 0, []
    for row in top["stimulus"]:
        count += sum(step["times"] for step in row["steps"])
        if count > MOST_STEPS:
            raise row.error("steps", f"the stimuli have more than {MOST_STEPS} steps")
        for step in row["steps"]:
            _check_step(step, inputs, fields, interface)
        values = np.array([step["inputs"] for step in row["steps"]], np.float64)
        times = [step["times"] for step in row["steps"]]
        steps = np.repeat(values.reshape(len(times), len(inputs)), times, axis=0)
        stimuli.append(Stimulus(steps, row["reaches"], row["fails"]))
    return Stimuli(top["controller"], inputs, tuple(stimuli), dict(top["generated"]), path)


def _check_step(
    step: Entries, names: Sequence[str], fields: Sequence[tuple[str, Field]],
    interface: Interface | None,
) -> None:  # fmt: skip
    values = step["inputs"]
    if len(values) != len(names):
        problem = f"inputs is {list(values)}; write a list of {len(names)} numbers"
        raise step.error("inputs", problem)
    for (name, field_), value in zip(fields, values, strict=False):
        if why := why_refused(field_, value):
            declared = f"{interface.path.name}:{field_.line}" if interface else ""
            problem = f"{name} = {value!r} is not allowed: {why} ({declared})"
            raise step.error("inputs", f"{problem}; change the value or the interface file")


def _lines(given: Stimuli) -> Iterator[str]:
    yield f"# Input sequences for rtsim sil test.  Written by {MARK}; you may add entries by hand."
    yield f"format = {_FORMAT}"
    yield f"controller = {to_toml(given.controller)}"
    yield f"inputs = {to_toml(given.inputs)}"
    if given.generated:
        yield "\n[generated]"
        yield from (f"{key} = {to_toml(value)}" for key, value in given.generated.items())
    for one in given.stimuli:
        yield "\n[[stimulus]]"
        yield "reaches = ["
        yield from (f"  {to_toml(text)}," for text in one.reaches)
        yield "]"
        if one.fails:
            yield f"fails = {to_toml(one.fails)}"
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
        yield f"{{ inputs = {to_toml(table[at].tolist())}{times} }}"
        at = end


# -- values that generated stimuli may contain


class Ranges:
    """The ranges of all inputs, with values that are likely to reach branches.

    A range depends on the interface file (``low``, ``high``) and the C type. A float or a wide
    integer without limits has a symmetric range. This range is computed from the ``inputs`` (k, m)
    of a run and the ``numbers`` in the C source.
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
        return bool(np.array_equal(self.fitted(table), table, equal_nan=True))

    @property
    def rest(self) -> Vector:
        """Allowed values nearest to 0, shape (m,)."""
        return np.array([one.rest for one in self.columns])

    def drawn(self, rng: np.random.Generator, column: int) -> float:
        """Draw a value of an input: a special value, a likely value or any value."""
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

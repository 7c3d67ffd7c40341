"""Data age and reaction time along a chain of messages, from the stamps of a recording.

A chain names signals from a sample to an effect, such as ``imu.gyro``, ``autopilot.elevator`` and
``f16.elevator``.  Each stage of the chain is a component that sends messages.  The rules
**chain-reads-the-latest**, **data-age** and **reaction-time** of docs/semantics.md define all
figures.

Sources:
    N. Feiertag, K. Richter, J. Nordlander and J. Jonsson: A compositional framework for end-to-end
    path delay calculation of automotive systems under different path semantics.  Workshop on
    Compositional Theory and Technology for Real-Time Embedded Systems, 2008.
    A. Davare et al.: Period optimization for hard real-time distributed automotive systems.  Design
    Automation Conference, 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.tag import NS_PER_S
from rtsim.record.component_values import MESSAGES
from rtsim.record.named_signals import SignalsByName

if TYPE_CHECKING:
    from rtsim.record.component_values import Rows
    from rtsim.record.table import Recorded

Counts = NDArray[np.int64]
_COPY = 2
_SAMPLING = ("sensor", "controller")
_SENDING = (*_SAMPLING, "processes", "topic")
"""Kinds of components that send messages; only those of ``_SAMPLING`` can follow another stage."""

# -- the stages of a chain -------------------------------------------------------------------------


class Stage(NamedTuple):
    """A component of a chain that sends messages."""

    name: str
    in_order: bool
    """True if a declared order puts the stage after the stage before it."""


SignalsOf = Callable[[str], Iterable[str]]
"""Function that returns the names of the signals of a component."""


def stages_of(
    elements: Sequence[str],
    parts: Mapping[str, Mapping[str, Any]],
    order: Iterable[Sequence[str]],
    signals_of: SignalsOf,
) -> tuple[Stage, ...]:
    """Return the stages of a chain.

    Args:
        elements: Signals ``"component.signal"``. Each component must read the element before it.
        parts: Descriptions of the components, by name, as in the header of a recording.
        order: Pairs of controllers with a declared order.
        signals_of: Function that returns the signals of a component that can be in a chain.

    Raises:
        UnknownName: A component or a signal is unknown.
        ScenarioError: An element does not read the element before it.
    """
    if len(elements) < 2:
        raise ScenarioError(
            f"the chain {','.join(elements)!r} has {len(elements)} element(s); give two or more "
            "signals, such as imu.gyro,autopilot.elevator,f16.elevator"
        )
    pairs = [(str(first), str(then)) for first, then in order]
    stages: list[Stage] = []
    for k, element in enumerate(elements):
        name = _named(element, parts, signals_of)
        kind = str(parts[name].get("kind"))
        if k:
            _check_reads(elements, k, parts[name], kind)
        if kind in _SENDING:
            after = bool(stages) and _is_after(name, stages[-1].name, pairs)
            stages.append(Stage(name, after))
        elif 0 < k < len(elements) - 1:
            raise ScenarioError(
                f"{element} is within the chain, but {name} is a {kind} and passes on no messages; "
                f"end the chain at {element}, and begin another chain after it"
            )
    if not stages:
        raise ScenarioError(
            f"no component of the chain {', '.join(elements)} sends messages; add the sensor or "
            "the controller between its signals"
        )
    return tuple(stages)


def _named(element: str, parts: Mapping[str, Mapping[str, Any]], signals_of: SignalsOf) -> str:
    """Return the component of ``element``, whose names are checked."""
    name, dot, signal = element.partition(".")
    if not dot or not signal:
        raise ScenarioError(f"{element!r} is not a signal of a chain; write component.signal")
    if name not in parts:
        raise UnknownName("component", name, parts, "the chain")
    known = list(dict.fromkeys(signals_of(name)))
    if signal not in known and _base(signal) not in known:
        raise UnknownName("signal", signal, known, name)
    return name


def _base(signal: str) -> str:
    return signal.partition("[")[0]


def _same(source: object, element: str) -> bool:
    """Return whether ``source`` is the signal ``element``, or an element of the same array."""
    one, other = str(source), element
    return one == other or (_base(one) == _base(other) and (_base(one) in (one, other)))


def _is_after(name: str, first: str, pairs: Sequence[tuple[str, str]]) -> bool:
    reached, found = {first}, True
    while found:
        more = {then for before, then in pairs if before in reached} - reached
        reached |= more
        found = bool(more)
    return name != first and name in reached


def _check_reads(elements: Sequence[str], k: int, part: Mapping[str, Any], kind: str) -> None:
    """Raise :class:`ScenarioError` unless element ``k`` reads the element before it."""
    before, element = elements[k - 1], elements[k]
    name, _, signal = element.partition(".")
    if kind in ("processes", "topic"):
        raise ScenarioError(
            f"{element} follows {before} in the chain, but processes decide themselves when they "
            f"read a signal; begin the chain with {element}"
        )
    sources: Mapping[str, Any] = part.get("inputs") or part.get("sources") or {}
    if kind == "controller":
        if any(_same(source, before) for source in sources.values()):
            return
        raise ScenarioError(
            f"{name} does not read {before}, which precedes {element} in the chain; {name} reads "
            f"{_listed(sources.values())}"
        )
    own = sources.get(signal, sources.get(_base(signal)))
    if own is None:
        readers = [f"{name}.{i}" for i, source in sources.items() if _same(source, before)]
        remedy = f"write {' or '.join(readers)}" if readers else f"it does not read {before}"
        raise ScenarioError(f"{element} is not an input of the {kind} {name}; {remedy}")
    if not _same(own, before):
        raise ScenarioError(f"{element} reads {own}, not {before}, which precedes it in the chain")


def _listed(sources: Iterable[object]) -> str:
    return ", ".join(sorted({str(one) for one in sources if "." in str(one)})) or "no signals"


# -- figures ---------------------------------------------------------------------------------------


class Link(NamedTuple):
    """One message of a path along the chain, with its times in ns."""

    stage: str
    sequence: int
    initiated: int
    completed: int
    arrival: int

    def __str__(self) -> str:
        return f"{self.stage} {self.sequence} ({_s(self.initiated)} to {_s(self.arrival)} s)"


def _s(ns: int) -> str:
    return f"{ns / NS_PER_S:.9g}"


@dataclass(frozen=True)
class Worst:
    """The largest age or reaction time, and the messages that caused it. All times are in ns."""

    ns: int
    """The age or the reaction time."""
    from_ns: int
    """Sample of the oldest link, or for a reaction the sample that missed the event."""
    until_ns: int
    path: tuple[Link, ...]
    """The messages from the first stage to the last."""

    def __str__(self) -> str:
        return " -> ".join(map(str, self.path))

    def to_json(self) -> dict[str, Any]:
        return {
            "s": self.ns / NS_PER_S,
            "from_s": self.from_ns / NS_PER_S,
            "until_s": self.until_ns / NS_PER_S,
            "messages": [
                {
                    "topic": one.stage, "sequence": one.sequence, "initiated_ns": one.initiated,
                    "completed_ns": one.completed, "arrival_ns": one.arrival,
                }
                for one in self.path
            ],
        }  # fmt: skip


@dataclass(frozen=True)
class Ages:
    """Data ages and reaction times along one chain in one run. All times are in ns.

    Value i takes effect at the end of the chain at ``begins[i]`` and remains until ``ends[i]``. The
    value depends on the sample at ``samples[i]``. All three arrays have the shape (n,).
    """

    elements: tuple[str, ...]
    samples: Counts
    begins: Counts
    ends: Counts
    worst_age: Worst | None
    """None if no value at the end of the chain depends on a sample of its beginning."""
    worst_reaction: Worst | None
    """None if no sample was followed by a value that depends on a later sample."""
    open_ns: int
    """Time from the last sample that nothing has followed until the end of the recording."""
    reason: str = ""
    """Why there are no figures; empty otherwise."""

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def youngest(self) -> Counts:
        """Age of each value when it takes effect, ns (n,)."""
        return self.begins - self.samples

    @property
    def oldest(self) -> Counts:
        """Age of each value just before the next value takes effect, ns (n,)."""
        return self.ends - self.samples

    @property
    def least(self) -> int:
        """Smallest age, ns."""
        return int(self.youngest.min())

    @property
    def reaction_so_far(self) -> int:
        """Longest reaction time, including one that has not ended, ns."""
        worst = 0 if self.worst_reaction is None else self.worst_reaction.ns
        return max(worst, self.open_ns)

    @cached_property
    def _shares(self) -> tuple[Counts, Counts, Counts]:
        """Ages at which the distribution has a corner, and density and mass up to each."""
        ages = np.concatenate((self.youngest, self.oldest))
        change = np.repeat([1, -1], len(self))
        order = np.argsort(ages, kind="stable")
        ages, density = ages[order], np.cumsum(change[order])
        mass = np.concatenate(([0], np.cumsum(density[:-1] * np.diff(ages))))
        return ages, density, mass

    def quantile(self, percent: int) -> int:
        """Return the age, in ns, that is not exceeded for ``percent`` % of the time."""
        ages, density, mass = self._shares
        total = int(mass[-1])
        if not total:  # no value remained for any time
            return int(np.sort(self.youngest)[(len(self) - 1) * percent // 100])
        wanted = -(-percent * total // 100)
        k = int(np.searchsorted(mass, wanted))
        before = k - 1
        return int(ages[before]) - (int(mass[before]) - wanted) // int(density[before])

    def histogram(self, bins: int) -> tuple[Counts, NDArray[np.float64]]:
        """Return edges (bins + 1,), in ns, and the share of time of the ages between them."""
        ages, _, mass = self._shares
        low, high = int(ages[0]), int(ages[-1])
        if low == high:
            return np.array([low, low + 1]), np.ones(1)
        edges = low + (high - low) * np.arange(bins + 1, dtype=np.float64) / bins
        if not mass[-1]:
            shares = np.histogram(self.youngest, edges)[0] / len(self)
            return np.rint(edges).astype(np.int64), shares
        cumulative = np.interp(edges, ages, mass / mass[-1])
        return np.rint(edges).astype(np.int64), np.diff(cumulative)

    def to_json(self) -> dict[str, Any]:
        known = len(self) > 0
        return {
            "chain": list(self.elements),
            "values": len(self),
            "least_s": self.least / NS_PER_S if known else None,
            "median_s": self.quantile(50) / NS_PER_S if known else None,
            "p99_s": self.quantile(99) / NS_PER_S if known else None,
            "worst_age": None if self.worst_age is None else self.worst_age.to_json(),
            "worst_reaction": (
                None if self.worst_reaction is None else self.worst_reaction.to_json()
            ),
            "open_reaction_s": self.open_ns / NS_PER_S,
            "reason": self.reason,
        }


def ages(run: Recorded | SignalsByName, elements: Sequence[str]) -> Ages:
    """Return data ages and reaction times along the chain ``elements`` in a recorded run.

        found = ages(simulate(loop), ["imu.gyro", "autopilot.elevator", "f16.elevator"])
        print(found.worst_age.ns / 1e6, "ms")

    Args:
        run: A recording, or the result of a run.
        elements: Signals ``"component.signal"``, from the first sample to the last effect.

    Raises:
        UnknownName: A component or a signal is unknown.
        ScenarioError: An element does not read the element before it.
        RecordingError: The recording has no messages of a stage.
    """
    recording = run._signals_from() if isinstance(run, SignalsByName) else run
    scenario = recording.header.get("scenario") or {}
    parts = scenario.get("parts") or {}
    if not parts:
        raise RecordingError(f"{recording.source} does not describe its components")
    signals = _signals_of(recording, parts)
    elements = tuple(map(str, elements))
    stages = stages_of(elements, parts, scenario.get("order") or (), signals)
    return _Chain(recording, elements, stages).ages()


def _signals_of(recording: Recorded, parts: Mapping[str, Mapping[str, Any]]) -> SignalsOf:
    def names(component: str) -> list[str]:
        part = parts[component]
        found: list[str] = []
        for track in (f"{MESSAGES}{component}", component, f"inputs/{component}"):
            if track in recording.tracks:
                found += recording.tracks[track].signals.names
        if part.get("kind") in ("source", "plant"):
            found += part.get("values") or ()
            found += part.get("inputs") or ()
        return found

    return names


class _Messages(NamedTuple):
    """The messages of one stage, in the order of their effect. Each array has the shape (n,)."""

    sequence: Counts
    initiated: Counts
    initiated_step: Counts
    completed: Counts
    arrival: Counts
    arrival_step: Counts


def _arrived(track: Rows) -> tuple[_Messages, tuple[Counts, Counts]]:
    """Return the messages that arrived, and the tags (ns, step) of all samples."""
    columns = {name: np.asarray(track.integer(name)) for name in track.integers}
    sampled = columns["initiated"], columns["initiated_step"]
    there = np.flatnonzero(columns["arrival"] >= 0)
    kept = {name: values[there] for name, values in columns.items()}
    order = np.lexsort(
        (kept["status"] == _COPY, kept["sequence"], kept["arrival_step"], kept["arrival"])
    )
    return _Messages(*(kept[name][order] for name in _Messages._fields)), sampled


def _latest(effects: tuple[Counts, Counts], samples: tuple[Counts, Counts]) -> Counts:
    """Return the position of the last effect at or before each sample, or -1.

    Effects and samples are tags: arrays of times (ns) and of microsteps. The effects are sorted.
    """
    n = len(effects[0])
    ns = np.concatenate((effects[0], samples[0]))
    step = np.concatenate((effects[1], samples[1]))
    is_sample = np.arange(len(ns)) >= n
    order = np.lexsort((is_sample, step, ns))
    before = np.cumsum(~is_sample[order]) - 1
    out = np.empty(len(ns), np.int64)
    out[order] = before
    return out[n:]


class _Chain:
    """The messages of all stages of a chain, and their paths."""

    def __init__(
        self, recording: Recorded, elements: tuple[str, ...], stages: tuple[Stage, ...]
    ) -> None:
        self._elements, self._stages = elements, stages
        self._end = recording.span_ns[1]
        self._messages: list[_Messages] = []
        for stage in stages:
            track = recording.tracks.get(f"{MESSAGES}{stage.name}")
            if track is None:
                raise RecordingError(
                    f"{recording.source} has no messages of {stage.name}; record the run again "
                    "with all tracks"
                )
            messages, sampled = _arrived(track)
            if not self._messages:
                self._sampled = sampled
            self._messages.append(messages)
        self._paths = self._linked()

    def _linked(self) -> Counts:
        """Return the position of the message of each stage, for each value at the end.

        The shape is (stages, values); -1 stands for no message.
        """
        last = self._messages[-1]
        paths = [np.arange(len(last.arrival))]
        for k in range(len(self._stages) - 1, 0, -1):
            own, earlier = self._messages[k], self._messages[k - 1]
            effects = earlier.arrival, earlier.arrival_step
            if not self._stages[k].in_order:
                # Outside a declared order, an answer at the tag of its sample is read a microstep
                # later.
                at_once = (earlier.arrival == earlier.initiated) & (
                    earlier.arrival_step == earlier.initiated_step
                )
                effects = earlier.arrival, earlier.arrival_step + at_once
            used = _latest(effects, (own.initiated, own.initiated_step))
            after = paths[0]
            paths.insert(0, np.where(after >= 0, used[after], -1) if len(used) else after)
        return np.stack(paths)

    def ages(self) -> Ages:
        last = self._messages[-1]
        effect = last.arrival <= self._end
        ends = np.append(last.arrival[1:], self._end)
        ends = np.minimum(ends, self._end)
        complete = effect & (self._paths >= 0).all(axis=0)
        kept = np.flatnonzero(complete)
        paths = self._paths[:, kept]
        first = self._messages[0]
        samples = first.initiated[paths[0]]
        steps = first.initiated_step[paths[0]]
        begins, ends = last.arrival[kept], ends[kept]
        worst = None
        if len(kept):
            k = int(np.argmax(ends - samples))
            worst = self._worst(int(samples[k]), int(ends[k]), paths[:, k])
        reaction, still = self._reactions((samples, steps), begins, paths)
        reason = "" if len(kept) else self._why_none(effect)
        return Ages(self._elements, samples, begins, ends, worst, reaction, still, reason)

    def _worst(self, begin: int, end: int, path: Counts) -> Worst:
        links = []
        for stage, messages, row in zip(self._stages, self._messages, path.tolist(), strict=True):
            found = (messages.sequence, messages.initiated, messages.completed, messages.arrival)
            links.append(Link(stage.name, *(int(values[row]) for values in found)))
        return Worst(end - begin, begin, end, tuple(links))

    def _reactions(
        self, origins: tuple[Counts, Counts], begins: Counts, paths: Counts
    ) -> tuple[Worst | None, int]:
        """Return the longest reaction, and the time of the reaction that has not ended."""
        tags = np.unique(np.stack(self._sampled, axis=1), axis=0)
        if not len(tags):
            return None, 0
        ns, step = np.ascontiguousarray(tags[:, 0]), np.ascontiguousarray(tags[:, 1])
        never = len(begins)
        first = np.full(len(tags) + 1, never, np.int64)
        np.minimum.at(first, _latest((ns, step), origins), np.arange(never))
        after = np.minimum.accumulate(first[::-1])[::-1][1:]
        """For each sample, the first value that depends on a later sample."""
        still = np.flatnonzero(after == never)
        open_ns = int(self._end - ns[still[0]]) if len(still) else 0
        ended = np.flatnonzero(after < never)
        if not len(ended):
            return None, open_ns
        taken = begins[after[ended]] - ns[ended]
        k = int(np.argmax(taken))
        value = int(after[ended[k]])
        missed = int(ns[ended[k]])
        return self._worst(missed, int(begins[value]), paths[:, value]), open_ns

    def _why_none(self, effect: NDArray[np.bool_]) -> str:
        for stage, messages in zip(self._stages, self._messages, strict=True):
            if not len(messages.arrival):
                return f"no message of {stage.name} arrived"
        if not effect.any():
            return f"no message of {self._stages[-1].name} arrived before the end of the recording"
        for k in range(len(self._stages) - 2, -1, -1):
            if (self._paths[k] < 0).all():
                before, after = self._stages[k].name, self._stages[k + 1].name
                return f"no message of {after} that took effect depends on a message of {before}"
        return "no value at the end of the chain depends on a sample of its beginning"

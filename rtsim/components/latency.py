"""Latency models, and decorators that lose, copy or reorder messages.

A model returns a list of delays (ns): empty for a lost message, and with two elements for a
duplicated one. R Random numbers come only from the stream that the model receives. A model can have
state: each link of each run has its own copy. Names of models, as in ``--latency gamma:2,0.001``,
are in :data:`rtsim.components.allowed_latency.LATENCY_MODELS`.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, is_dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rtsim.components.medium import shared
from rtsim.core.errors import LatencyError, ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.tag import LONGEST_NS, NS_PER_S, Duration, declared_ns, to_ns


class LatencyModel(Protocol):
    """Interface of latency models.

    If ``ordered`` is True, messages never overtake each other.
    """

    @property
    def ordered(self) -> bool: ...

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:
        """Return the delays (ns) of a message: none if lost, two if duplicated."""
        ...


def draw(
    model: LatencyModel, streams: RandomStreams, stream: str, size_bytes: int, link: str
) -> tuple[int, ...]:
    """Return delays in ns, with random numbers from ``stream``.

    Raises ``LatencyError`` for invalid delays.
    """
    if type(model) is Fixed:  # the constructor of Fixed has checked the delay
        return model.constant
    delays = model.delays(streams.stream(stream), size_bytes)
    if not isinstance(delays, tuple):
        raise LatencyError(
            f"latency model {type(model).__name__} on {link} returned {delays!r}; expected a "
            "tuple with one delay in ns for each copy that arrives"
        )
    for delay in delays:
        if type(delay) is not int or not 0 <= delay < LONGEST_NS:
            raise LatencyError(
                f"latency model {type(model).__name__} on {link} returned a delay of {delay!r} ns; "
                "a delay must be an int >= 0, because a message cannot arrive before it is sent"
            )
    return delays


def _ns(seconds: float) -> int:
    if not abs(seconds * NS_PER_S) < LONGEST_NS:
        raise LatencyError(
            f"the latency model drew a delay of {seconds} s; a delay must be finite and shorter "
            f"than {LONGEST_NS // NS_PER_S:,} s (146 years); check the model's parameters"
        )
    return round(seconds * NS_PER_S)


def _at_least_zero(what: str, value: Duration) -> int:
    ns = declared_ns(value, what)
    if ns < 0:
        raise ScenarioError(f"{what} = {value!r} s is negative; give a time >= 0")
    return ns


def _probability(what: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ScenarioError(f"{what} = {value!r} is not a probability; give a number from 0 to 1")


@dataclass(frozen=True)
class Fixed:
    """A constant latency, s; the default of a link is ``Fixed(0)``.

    Example:
        Fixed(0.002)  # 2 ms
    """

    seconds: Duration = 0
    ordered: bool = field(default=True, init=False)
    constant: tuple[int, ...] = field(default=(), init=False, repr=False, compare=False)
    """The constant delay of the model, ns."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "constant", (_at_least_zero("Fixed latency", self.seconds),))

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        return self.constant


def latency_model(given: LatencyModel | Duration, where: str) -> LatencyModel:
    """Return a latency model; a number becomes a constant latency in s.

    Raises ``ScenarioError`` for any other object.
    """
    if isinstance(given, int | float | str | Fraction) and not isinstance(given, bool):
        _at_least_zero(where, given)
        return Fixed(given)
    if isinstance(given, bool | type) or not callable(getattr(given, "delays", None)):
        name = given.__name__ if isinstance(given, type) else repr(given)
        raise ScenarioError(
            f"{where} is {name}; give a number of seconds, or a latency model such as "
            "Fixed(0.005) or Uniform(0.001, 0.004)"
        )
    return given


@dataclass(frozen=True)
class Uniform:
    """Latency with a uniform distribution from ``low`` to ``high``, s.

    Example:
        Uniform(0.001, 0.004)  # 1 ms to 4 ms
    """

    low: float
    high: float
    ordered: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        if not 0.0 <= self.low <= self.high < math.inf:
            raise ScenarioError(f"Uniform({self.low}, {self.high}): give 0 <= low <= high, in s")

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        return (_ns(stream.uniform(self.low, self.high)),)


@dataclass(frozen=True)
class TruncatedNormal:
    """Latency with a normal distribution, truncated to ``low`` … ``high``, s.

    Example:
        TruncatedNormal(mean=0.005, deviation=0.001, low=0.003)
    """

    mean: float
    deviation: float
    low: float = 0.0
    high: float = math.inf
    ordered: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        if not (self.deviation > 0.0 and 0.0 <= self.low < self.high):
            raise ScenarioError(
                f"TruncatedNormal(deviation={self.deviation}, low={self.low}, "
                f"high={self.high}): give deviation > 0 and 0 <= low < high, in s"
            )
        normal = NormalDist(self.mean, self.deviation)
        bounds = (normal.cdf(self.low), normal.cdf(self.high) if self.high < math.inf else 1.0)
        if bounds[1] - bounds[0] < 1e-9:
            raise ScenarioError(
                f"TruncatedNormal: [{self.low}, {self.high}] s has almost no probability with "
                f"mean {self.mean} s and deviation {self.deviation} s; make the interval wider"
            )
        object.__setattr__(self, "_bounds", bounds)

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        first, last = self._bounds  # type: ignore[attr-defined]
        share = min(max(stream.uniform(first, last), 1e-300), 1.0 - 1e-16)
        drawn = NormalDist(self.mean, self.deviation).inv_cdf(share)
        return (_ns(min(max(drawn, self.low), self.high)),)


@dataclass(frozen=True)
class Gamma:
    """Sum of the constant ``minimum`` and a gamma-distributed latency, as in many networks.

    ``minimum`` and ``scale`` are in s.

    Example:
        Gamma(shape=2.0, scale=0.001, minimum=0.0005)  # 2.5 ms on average
    """

    shape: float
    scale: float
    minimum: float = 0.0
    ordered: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        if not (self.shape > 0.0 and self.scale > 0.0 and self.minimum >= 0.0):
            raise ScenarioError(
                f"Gamma({self.shape}, {self.scale}, {self.minimum}): give shape > 0, scale > 0 "
                "and minimum >= 0, in s"
            )

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        return (_ns(self.minimum + stream.gamma(self.shape, self.scale)),)


@dataclass(frozen=True)
class SerialLine:
    """Latency of a serial line with ``baud`` bit/s, for payload and ``overhead`` (bytes).

    Example:
        SerialLine(115200, overhead=4)
    """

    baud: int
    bits_per_byte: int = 10
    overhead: int = 0
    ordered: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        if self.baud <= 0 or self.bits_per_byte <= 0 or self.overhead < 0:
            raise ScenarioError(
                f"SerialLine(baud={self.baud}, bits_per_byte={self.bits_per_byte}, "
                f"overhead={self.overhead}): give baud > 0, bits_per_byte > 0 and overhead >= "
                "0"
            )

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        bits = (size_bytes + self.overhead) * self.bits_per_byte
        return (-(-bits * NS_PER_S // self.baud),)


@dataclass(frozen=True, repr=False)
class Empirical:
    """Latency drawn at random from measured delays (ns).

    ``source`` describes where the delays were measured.

    Example:
        Empirical.of([1_200_000, 1_350_000, 1_280_000], source="bench of 4 May")
    """

    samples: tuple[int, ...]
    source: str = ""
    ordered: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        if not self.samples:
            raise ScenarioError(
                "Empirical latency has no samples; give at least one measured delay"
            )
        low, high = min(self.samples), max(self.samples)
        if low < 0:
            raise ScenarioError(f"Empirical latency has a sample of {low} ns; samples must be >= 0")
        if high >= LONGEST_NS:
            raise ScenarioError(
                f"Empirical latency has a sample of {high} ns, which is longer than the longest "
                "possible run; leave this sample out"
            )

    @classmethod
    def of(cls, samples_ns: Sequence[int], source: str = "") -> Empirical:
        return cls(tuple(int(s) for s in samples_ns), source)

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        return (self.samples[int(stream.integers(len(self.samples)))],)

    def quantile(self, share: float) -> int:
        """Return the smallest sample (ns) that at least ``share`` of all samples do not exceed."""
        rank = math.ceil(share * len(self.samples) - 1e-9)
        return sorted(self.samples)[max(rank, 1) - 1]

    def __repr__(self) -> str:
        return f"Empirical({_samples_in_words(self.samples, self.source)})"


def _samples_in_words(samples: Sequence[int], source: str) -> str:
    """Return a short text that identifies the samples by their hash."""
    told = hashlib.sha256(",".join(map(str, samples)).encode()).hexdigest()[:16]
    return (
        f"{len(samples)} samples, {min(samples)} to {max(samples)} ns, sha256 {told}"
        f"{f', {source}' if source else ''}"
    )


@dataclass(eq=False, repr=False)
class InTurn:
    """Measured delays (ns), one after the other; after the last one, the first one follows.

    ``source`` describes where the delays were measured.

    Example:
        InTurn((1_200_000, 1_350_000, 1_280_000), source="bench of 4 May")
    """

    samples: tuple[int, ...]
    source: str = ""
    ordered: bool = field(default=True, init=False)
    position: int = field(default=0, init=False)
    """Index of the next delay."""

    def __post_init__(self) -> None:
        if not self.samples:
            raise ScenarioError("InTurn has no samples; give at least one measured delay")
        low, high = self.bounds_ns
        if low < 0 or high >= LONGEST_NS:
            raise ScenarioError(
                f"InTurn has samples from {low} to {high} ns; give samples from 0 to "
                f"{LONGEST_NS - 1} ns"
            )

    @property
    def bounds_ns(self) -> tuple[int, int]:
        """The shortest and the longest delay, ns."""
        return min(self.samples), max(self.samples)

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        delay = self.samples[self.position]
        self.position = (self.position + 1) % len(self.samples)
        return (delay,)

    def save(self) -> dict[str, Any]:
        return {"position": self.position}

    def restore(self, saved: dict[str, Any]) -> None:
        self.position = int(saved["position"]) % len(self.samples)

    def __repr__(self) -> str:
        return f"InTurn({_samples_in_words(self.samples, self.source)})"


@dataclass(frozen=True)
class Loss:
    """Decorator that loses messages with ``probability``; lost messages are recorded too.

    Example:
        Loss(Gamma(2.0, 0.001), probability=0.01)
    """

    inner: LatencyModel
    probability: float

    def __post_init__(self) -> None:
        _probability("Loss probability", self.probability)

    @property
    def ordered(self) -> bool:
        return self.inner.ordered

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:
        # Draw both numbers in any case, so that a loss does not change later delays.
        lost = stream.random() < self.probability
        delays = self.inner.delays(stream, size_bytes)
        return () if lost else delays


@dataclass(frozen=True)
class Duplicate:
    """Decorator that sends a second copy after ``gap`` s, with ``probability``.

    Example:
        Duplicate(Fixed(0.002), probability=0.01, gap=0.001)
    """

    inner: LatencyModel
    probability: float
    gap: Duration = 0

    def __post_init__(self) -> None:
        _probability("Duplicate probability", self.probability)
        _at_least_zero("Duplicate gap", self.gap)

    @property
    def ordered(self) -> bool:
        return self.inner.ordered

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:
        twice = stream.random() < self.probability
        delays = self.inner.delays(stream, size_bytes)
        return delays + tuple(d + to_ns(self.gap) for d in delays) if twice else delays


@dataclass(frozen=True)
class Reorder:
    """Decorator that delays messages by ``extra`` s with ``probability``.

    Example:
        Reorder(Uniform(0.001, 0.002), probability=0.05, extra=0.01)
    """

    inner: LatencyModel
    probability: float
    extra: Duration
    ordered: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        _probability("Reorder probability", self.probability)
        _at_least_zero("Reorder extra", self.extra)

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:
        held = to_ns(self.extra) if stream.random() < self.probability else 0
        return tuple(d + held for d in self.inner.delays(stream, size_bytes))


ZERO: LatencyModel = Fixed(0)


@runtime_checkable
class SavableLatency(Protocol):
    """A latency model that saves its own state as plain data."""

    def save(self) -> dict[str, Any]: ...

    def restore(self, saved: dict[str, Any]) -> None: ...


def for_one_run(model: LatencyModel, link: str) -> LatencyModel:
    """Return the latency model of a link for one run: a copy if the model has state.

    Raises ``ScenarioError`` for a model that cannot be copied.
    """
    if remembers_nothing(model):
        return model
    medium = getattr(shared(model), "medium", None)  # media are compared, and belong to all links
    try:
        return copy.deepcopy(model, {id(medium): medium})
    except Exception as error:
        raise ScenarioError(
            f"latency model {type(model).__name__} on {link} cannot be copied: {error}; each run "
            "uses a copy of its own, so keep only plain values in the model"
        ) from error


def remembers_nothing(model: object) -> bool:
    """Return whether the model has no state."""
    options: Any = getattr(type(model), "__dataclass_params__", None)
    if not is_dataclass(model) or isinstance(model, type) or not options.frozen:
        return False
    values = _attributes(model).values()
    if not _is_ours(model) and not all(_never_changes(v) for v in values if not _is_model(v)):
        return False
    return all(remembers_nothing(value) for value in values if _is_model(value))


def _is_ours(model: object) -> bool:
    return type(model).__module__.partition(".")[0] in ("rtsim", "hitl")


def _is_model(value: object) -> bool:
    return hasattr(value, "delays")


def _attributes(model: object) -> dict[str, Any]:
    slots = (n for kind in type(model).__mro__ for n in getattr(kind, "__slots__", ()))
    found = {name: getattr(model, name) for name in slots if hasattr(model, name)}
    found |= getattr(model, "__dict__", {})
    medium = getattr(model, "medium", None)  # a declaration without state
    return {name: value for name, value in found.items() if medium is None or value is not medium}


def _never_changes(value: object) -> bool:
    if isinstance(value, tuple | frozenset):
        return all(map(_never_changes, value))
    return value is None or isinstance(value, bool | int | float | str | bytes | Fraction)


def _packed(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return {"tuple": [_packed(one) for one in value]}
    if isinstance(value, list):
        return [_packed(one) for one in value]
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(type(value).__name__)


def _unpacked(saved: Any) -> Any:
    if isinstance(saved, dict):
        return tuple(map(_unpacked, saved["tuple"]))
    return [_unpacked(one) for one in saved] if isinstance(saved, list) else saved


def _can_be_packed(value: object) -> bool:
    try:
        _packed(value)
    except TypeError:
        return False
    return True


def latency_state(model: LatencyModel) -> dict[str, Any]:
    """Return the state of a latency model as plain data, for a checkpoint."""
    if remembers_nothing(model):
        return {}
    if isinstance(model, SavableLatency):
        return dict(model.save())
    out = {}
    for name, value in _attributes(model).items():
        if _is_model(value):
            out[name] = latency_state(value)
        elif not _is_ours(model) and _can_be_packed(value):
            out[name] = _packed(value)
    return {name: value for name, value in out.items() if value != {}}


def put_latency_back(model: LatencyModel, saved: dict[str, Any]) -> None:
    """Restore the state that :func:`latency_state` returned."""
    if remembers_nothing(model):
        return
    if isinstance(model, SavableLatency):
        model.restore(saved)
        return
    for name, value in _attributes(model).items():
        if _is_model(value):
            put_latency_back(value, saved.get(name, {}))
        elif not _is_ours(model) and name not in saved and _can_be_packed(value):
            object.__delattr__(model, name)  # set during the run: the class has a default
    for name, value in saved.items():
        if not _is_model(getattr(model, name, None)):
            object.__setattr__(model, name, _unpacked(value))


def not_saved(model: LatencyModel) -> Iterator[str]:
    """Yield attributes that may contain state but are not plain data, as ``Class.name``."""
    if remembers_nothing(model) or isinstance(model, SavableLatency):
        return
    for name, value in _attributes(model).items():
        if _is_model(value):
            yield from not_saved(value)
        elif not _is_ours(model) and not _can_be_packed(value):
            yield f"{type(model).__name__}.{name}"

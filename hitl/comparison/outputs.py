"""The verdict on one output of a compared controller."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Kind, Signal, Signals, Vector
from rtsim.core.tag import Tag
from rtsim.record.reading import TrackData
from rtsim.record.schema import TrackSpec
from rtsim.record.verdict import ComparedSignal, SignalResult, Tolerance, short

DESIGN = "design"
"""Name of the reference model in JSON and in the class names of JUnit files."""
REFERENCE_MODEL = "reference model"
"""Name of the reference model in texts and plots."""


class Sides(NamedTuple):
    """Names of two compared controllers; ``design`` is the reference for ``translation``."""

    design: str = DESIGN
    translation: str = "C"

    @property
    def aim(self) -> str:
        """Text for the expected behaviour, such as ``what its reference model does``."""
        whose = f"its {REFERENCE_MODEL}" if self.design == DESIGN else f"the {self.design}"
        return f"what {whose} does"

    @property
    def reference(self) -> str:
        """Name of the reference in texts: ``reference model``, or ``host C`` for a board."""
        return displayed(self.design)

    @property
    def shown(self) -> tuple[str, str]:
        """Both names as used in texts."""
        return self.reference, self.translation

    @property
    def gap(self) -> str:
        return f"{self.translation} - {self.reference}"

    @property
    def heading(self) -> str:
        return f"{self.translation} - {'reference' if self.design == DESIGN else self.design}"

    @property
    def key(self) -> str:
        return f"{self.translation} - {self.design}"


def displayed(side: str) -> str:
    return REFERENCE_MODEL if side == DESIGN else side


C_AGAINST_DESIGN = Sides()


Pairs = tuple[Vector, Vector]
"""Values of the reference model and of the translation, shape (n,) each."""


@dataclass(frozen=True)
class OutputResult(SignalResult):
    """The verdict on one output, over all steps with an answer."""

    type: str = "float64"
    """Type of the C output."""
    max_ulp: float = 0.0
    """Greatest distance in units in the last place, of ``float32`` for this type, else of
    ``float64``.
    """
    step: int | None = None
    """The first failing step; its tag is ``first_failed``."""
    worst_step: int | None = None
    """The step with the greatest share of the tolerance, or ``None`` if all bits agree."""
    share: float = 0.0
    """The difference at ``worst_step`` divided by the tolerance; the output fails above 1."""
    first_step: int | None = None
    """The first step with any difference; its tag is ``first``."""
    kind: Kind = "scalar"
    """``angle`` for an angle, which wraps around. Quaternions are compared element by element."""

    def pair(self, tags: NDArray[np.int64]) -> ComparedSignal:
        """Return an object that measures the differences of the output at ``tags`` (n, 2)."""
        return _pair(self.name, self.unit, self.kind, self.tolerance, tags)

    def to_json(self) -> dict[str, object]:
        worst = self.share if math.isfinite(self.share) else None
        ulp = self.max_ulp if math.isfinite(self.max_ulp) else None
        return {
            **super().to_json(),
            "type": self.type,
            "max_ulp": ulp,
            "first_failed_step": self.step,
            "first_difference_step": self.first_step,
            "worst_step": self.worst_step,
            "share_of_tolerance": worst,
        }


class StepMoment(NamedTuple):
    """One output at one step; ``signal`` is ``CONTROLLER.COLUMN``."""

    signal: str
    step: int
    tag: Tag
    design: float
    translation: float | None
    """The value of the translation, or ``None`` without an answer."""
    allowed: float
    """The allowed difference at this step, in the unit of the output."""
    inputs: dict[str, float]
    sides: Sides = C_AGAINST_DESIGN

    @property
    def where(self) -> str:
        return f"{self.signal} at step {self.step} ({short(self.tag)})"

    @property
    def in_words(self) -> str:
        given = "no answer"
        if self.translation is not None:
            given = f"{self.sides.translation} {self.translation!r}"
        return (
            f"{self.where}: {self.sides.reference} {self.design!r}, {given}, "
            f"allowed {self.allowed:.6g}; inputs {self.inputs_in_words}"
        )

    @property
    def inputs_in_words(self) -> str:
        return ", ".join(f"{name}={value:.9g}" for name, value in self.inputs.items())

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "tag": list(self.tag), "sides": list(self.sides)}


def judged(
    signal: Signal,
    column: str,
    type: str,
    tolerance: Tolerance,
    values: Pairs,
    tags: NDArray[np.int64],
    sides: Sides = C_AGAINST_DESIGN,
) -> OutputResult:
    """Return the verdict on an output with the values (n,) of both controllers.

    ``type`` is the C type of the output. ``tags`` (k, 2) contains the tags of all steps, k >= n. If
    answers are missing, the output fails at the first wrong or missing answer.
    """
    kind: Kind = "angle" if signal.kind == "angle" else "scalar"
    n = len(values[0])
    pair = _pair(column, signal.unit, kind, tolerance, tags)
    a, b = (v[:, None] for v in values)
    measured = pair.measure(a, b)
    shares = _shares(measured.gap[:, 0], measured.allowed[:, 0])
    failed, differing = ~measured.good[:, 0], ~measured.same[:, 0]
    differs = bool(differing.any())
    worst = int(np.lexsort((-np.arange(n), measured.gap[:, 0], shares))[-1]) if differs else None
    step = int(failed.argmax()) if failed.any() else None
    out = OutputResult(
        **vars(pair.judge(a, b)),
        type=type,
        max_ulp=float(ulps(values[0], values[1], type).max(initial=0.0)),
        step=step,
        worst_step=worst,
        share=float(shares.max(initial=0.0)),
        first_step=int(differing.argmax()) if differs else None,
        kind=kind,
    )
    if n == len(tags) or step is not None:
        reason = out.reason.replace("baseline", sides.reference)
        reason = reason.replace("candidate", sides.translation)
        return replace(out, reason=reason)
    at = pair.track.tag(n)
    reason = f"no answer from step {n} on ({short(at)})"
    return replace(out, step=n, first_failed=at, reason=reason)


def _pair(
    column: str, unit: str, kind: Kind, tolerance: Tolerance, tags: NDArray[np.int64]
) -> ComparedSignal:
    track = TrackData(TrackSpec("steps", ("step",), Signals()), tags)
    signal = Signal(column, unit, kind=kind)
    return ComparedSignal(track, np.arange(len(tags)), column, signal, tolerance)


def missing(column: str, unit: str) -> OutputResult:
    return OutputResult(column, unit, reason="missing in the translation", share=math.inf)


def lined_up(wanted: NDArray[np.float64], given: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``given`` (n, 4), with each quaternion negated if this is nearer to ``wanted``."""
    flipped = np.abs(wanted + given).max(axis=1) < np.abs(wanted - given).max(axis=1)
    return np.where(flipped[:, None], -given, given)


def ulps(a: Vector, b: Vector, type: str) -> Vector:
    """Return the number of floating-point numbers of a type between ``a`` and ``b`` (n,).

    Every ``type`` except ``float32`` counts as ``float64``. The result is infinite if one value is
    NaN, and 0 if both are NaN.
    """
    whole = np.int32 if type == "float32" else np.int64
    with np.errstate(over="ignore"):
        x, y = (
            _ranks(v.astype(np.float32 if type == "float32" else np.float64), whole) for v in (a, b)
        )
    high, low = np.maximum(x, y).astype(np.uint64), np.minimum(x, y).astype(np.uint64)
    distance = (high - low).astype(np.float64)  # modulo 2^64: cannot overflow
    distance[np.isnan(a) & np.isnan(b)] = 0.0
    distance[np.isnan(a) != np.isnan(b)] = math.inf
    return distance


def _ranks(values: NDArray[Any], whole: type[np.signedinteger[Any]]) -> NDArray[np.int64]:
    bits = np.ascontiguousarray(values).view(whole).astype(np.int64)
    return np.where(bits < 0, np.int64(np.iinfo(whole).min) - bits, bits)


def _shares(gap: Vector, allowed: Vector) -> Vector:
    some = (allowed > 0) & np.isfinite(gap)
    with np.errstate(over="ignore"):
        return np.divide(gap, allowed, out=np.where(gap > 0, math.inf, 0.0), where=some)

"""Tolerances: how much a translation may differ from its reference model.

A rule is ``(absolute, relative)`` by a pattern of signal names, as in ``rtsim compare``.  A pattern
matches an output by its own name (``force``), by controller (``controller.force``) or by track
(``messages/controller.force``); in the closed loop it also matches the signals of every track
(``plant.*``).  If several rules match a signal, the last rule applies.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from hitl.controllers.protocols import interface_of
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal
from rtsim.record.reading import Recording
from rtsim.record.verdict import EXACT, LARGE, Tolerance, Values, tolerance_of

Tolerances = Mapping[str, Tolerance | tuple[float, float]]

DOUBLE, SINGLE = Tolerance(1e-12, 1e-9), Tolerance(1e-6, 1e-5)
"""Default tolerances of one step on equal inputs, for C outputs in double and in float.

Each is a share of the signal's range, and a share of the value; the larger one applies.  For a
double, the defaults allow a different order of summation and a different math library.  A float has
a rounding error of 6e-8, and so have its inputs; subtracting two nearly equal values loses two more
digits.  Shares make the verdict the same in N m and in uN m: a rounding error is proportional to
the terms that were added, and the range is the best available estimate of their size.  A scaled
integer may differ by one count; other integers and bool have to be equal.
"""
IN_THE_LOOP = 1000.0
"""Factor from the tolerance of one step to that of the closed loop, which accumulates errors."""
_TURN = {"deg": 360.0, "rad": 2.0 * math.pi}
AT_REST = 1e-12
"""A signal with a smaller range, in its unit, counts as constant; a smaller value counts as 0."""


def span_of(values: Values, signal: Signal) -> float:
    """Return the largest range of an element of ``signal`` in the finite ``values`` (n, size)."""
    turn = _TURN.get(signal.unit) if signal.kind == "angle" else None
    most = 0.0
    for column in values.T:
        known = column[np.isfinite(column)]
        if len(known):
            moved = known if turn is None else np.unwrap(known, period=turn)
            with np.errstate(over="ignore"):
                most = max(most, float(np.ptp(moved)))
    return most if turn is None else min(most, turn)


def scale_of(values: Values, signal: Signal) -> float:
    """Return the size on which tolerances depend: the range of ``signal`` in ``values`` (n, size).

    A signal that does not move has no range.  Its size is its largest absolute value, or 1 if the
    signal is 0 throughout.  The verdict lists such a signal as not exercised.
    """
    span = span_of(values, signal)
    if span >= AT_REST:
        return span
    size = float(np.abs(values).max(initial=0.0, where=np.isfinite(values)))
    return size if size >= AT_REST else 1.0


def by_type(signal: Signal, scale: float = 1.0) -> Tolerance:
    """Return the default tolerance of a C output; floating-point types: as shares."""
    if signal.type == "float64":
        return DOUBLE
    if signal.type == "float32":
        return SINGLE
    return EXACT if scale == 1.0 else Tolerance(abs(scale) * (1.0 + 1e-9), 0.0)


def one_step(default: Tolerance, signal: Signal, values: Values) -> Tolerance:
    """Return the tolerance of one step in the output's unit, from the shares ``default``.

    ``values`` (n, 1) are those of the reference model.
    """
    if not signal.type.startswith("float"):
        return default
    return Tolerance(default.absolute * scale_of(values, signal), default.relative)


def in_the_loop(one_step: Iterable[Tolerance]) -> Tolerance:
    """Return every signal's tolerance in closed loop, from those of floating-point outputs.

    Scaled integers are left out: only the user knows the effect of one count on other signals.
    """
    loosest = Tolerance(*(max(values) for values in zip(DOUBLE, *one_step, strict=True)))
    return Tolerance(*(IN_THE_LOOP * value for value in loosest))


def of_signals(
    shares: Tolerance, baseline: Recording, stated: Mapping[str, Tolerance]
) -> dict[str, Tolerance]:
    """Return the default tolerance of each signal in closed loop, by signal name.

    ``shares`` are those of :func:`in_the_loop`.  The absolute tolerance is a share of the signal's
    range.  ``stated`` are the rules of the interface files, as :func:`for_tracks` makes them.  If a
    rule allows an output a larger share in one step, the share is 1000 times that of the rule, but
    at most a tenth.  If the rule alone allows more than a tenth of the output's range, for example
    in level flight with a small range, the share is that of the rule.  The relative tolerance is
    that of one step, because the loop does not multiply an offset.
    """
    steps = list(_stated_shares(stated, baseline))
    share = max([shares.relative, *(IN_THE_LOOP * s for s in steps)])
    share = min(share, max([shares.relative, LARGE, *(min(1.0, s) for s in steps)]))
    rules = {}
    for track in baseline.tracks.values():
        for signal in track.signals if track.spec.deterministic else ():
            values = track.rows.floats[:, track.signals.slice(signal.name)]
            moves = span_of(values, signal) >= AT_REST
            absolute = (share if moves else shares.absolute) * scale_of(values, signal)
            relative = shares.relative / IN_THE_LOOP
            rules[f"{track.name}.{signal.name}"] = Tolerance(absolute, relative)
    return rules


def _stated_shares(stated: Mapping[str, Tolerance], baseline: Recording) -> Iterator[float]:
    """Return the tolerance of each message that a rule matches, as a share of its range."""
    for name, track in baseline.tracks.items():
        for signal in track.signals if name.startswith("messages/") else ():
            names = [f"{name}.{signal.name}"]
            rules = [t for pattern, t in stated.items() if fnmatch.filter(names, pattern)]
            values = track.rows.floats[:, track.signals.slice(signal.name)]
            span = span_of(values, signal)
            if rules and span >= AT_REST:
                size = float(np.abs(values).max(initial=0.0, where=np.isfinite(values)))
                yield max(rules[-1].absolute, rules[-1].relative * size) / span


def one_after_the_other(*rules: Mapping[str, Tolerance]) -> dict[str, Tolerance]:
    """Return all rules in order; of a repeated pattern only the last rule is kept."""
    out: dict[str, Tolerance] = {}
    for some in rules:
        for pattern, tolerance in some.items():
            out.pop(pattern, None)
            out[pattern] = tolerance
    return out


def checked(tolerances: Tolerances | None) -> dict[str, Tolerance]:
    """Return ``tolerances`` by pattern.

    Raises :class:`ScenarioError` for a tolerance that is negative or not finite.
    """
    given = tolerances or {}
    return {pattern: tolerance_of(pattern, values) for pattern, values in given.items()}


def declared(controllers: Iterable[object]) -> dict[str, Tolerance]:
    """Return the rules of interface files, which come before the rules of the command line."""
    out: dict[str, Tolerance] = {}
    for controller in controllers:
        interface = interface_of(controller)
        rules = {} if interface is None else interface.tolerances
        given = {pattern: Tolerance(*values) for pattern, values in rules.items()}
        out = one_after_the_other(out, given)
    return out


def names_of(controller: str, column: str) -> tuple[str, ...]:
    """Return the names by which a rule can match an output."""
    return column, f"{controller}.{column}", f"messages/{controller}.{column}"


def of_output(
    rules: Mapping[str, Tolerance], controller: str, column: str, default: Tolerance
) -> Tolerance:
    """Return the last rule that matches the output, or the default."""
    names = names_of(controller, column)
    fitting = [t for pattern, t in rules.items() if fnmatch.filter(names, pattern)]
    return fitting[-1] if fitting else default


def for_tracks(
    rules: Mapping[str, Tolerance], outputs: Mapping[str, Iterable[str]], known: Iterable[str]
) -> dict[str, Tolerance]:
    """Return the rules in the form that :func:`rtsim.record.comparison.compare` takes.

    ``outputs`` are the columns of each controller, ``known`` the names of all signals.
    """
    signals = list(known)
    out: dict[str, Tolerance] = {}
    for pattern, tolerance in rules.items():
        meant = [pattern] if fnmatch.filter(signals, pattern) else []
        for controller, columns in outputs.items():
            for column in columns:
                *others, full = names_of(controller, column)
                if fnmatch.filter(others, pattern) and full in signals and pattern != "*":
                    meant.append(full)
        for name in meant:
            out.pop(name, None)  # a repeated name keeps its last place
            out[name] = tolerance
    return out


def fitting(rules: Mapping[str, Tolerance], names: Iterable[str]) -> dict[str, Tolerance]:
    """Return the rules that match one of ``names``."""
    known = list(names)
    return {pattern: t for pattern, t in rules.items() if fnmatch.filter(known, pattern)}


def refuse_unknown(patterns: Iterable[str], known: Iterable[str], where: str = "") -> None:
    """Raise an error, with ``where`` in front of its text, for a pattern that matches no name."""
    names = list(dict.fromkeys(known))
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise ScenarioError(
                f"{where}no signal matches {pattern!r}; names of signals are, for example, "
                f"{', '.join(names[:3])}"
            )

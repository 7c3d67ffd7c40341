"""Tolerances for the differences between a translation and its reference controller.

A rule consists of a pattern for signal names and a pair ``(absolute, relative)``. A pattern matches
the name of an output (``force``), with its controller (``controller.force``) or with its track
(``messages/controller.force``). In closed loop, a pattern also matches the signals of other tracks
(``plant.*``). If several rules match a signal, the last one applies.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from hitl.controllers.c_controller import interface_of, own_parameters_of
from hitl.interface import Field, Interface
from rtsim.components.controller import ControllerProtocol
from rtsim.components.protocols import parameters_of, values_of
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Vector
from rtsim.core.tag import Period
from rtsim.record.reading import Recording
from rtsim.record.verdict import EXACT, LARGE, Tolerance, Values, tolerance_of

Tolerances = Mapping[str, Tolerance | tuple[float, float]]

DOUBLE, SINGLE = Tolerance(1e-12, 1e-9), Tolerance(1e-6, 1e-5)
"""Default tolerances of one step on equal inputs, for C outputs in double and in float.

The pair contains a fraction of the signal's range and a fraction of the value; the larger limit
applies. For a double, the defaults allow another order of summation and another math library. A
float and its inputs have a rounding error of 6e-8; subtracting two nearly equal values loses two
more digits. A rounding error is proportional to the summands, and the range is the best available
estimate of their size. Fractions of the range also make the verdict independent of the unit. A
scaled integer may differ by one count; other integers and bool must be equal.
"""
IN_THE_LOOP = 1000.0
"""Ratio of the closed-loop tolerance to the tolerance of one step, because the loop accumulates
errors.
"""
_TURN = {"deg": 360.0, "rad": 2.0 * math.pi}
AT_REST = 1e-12
"""Limit below which the range of a signal counts as constant, and a value counts as 0."""


def span_of(values: Values, signal: Signal) -> float:
    """Return the greatest range of an element in the finite ``values`` (n, size)."""
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
    """Return the scale of a signal, to which its tolerances are relative.

    ``values`` (n, size) contains the values of the signal. The scale is the range of these values.
    For a constant signal, the scale is its absolute value, or 1 if the signal is always 0.
    """
    span = span_of(values, signal)
    if span >= AT_REST:
        return span
    size = float(np.abs(values).max(initial=0.0, where=np.isfinite(values)))
    return size if size >= AT_REST else 1.0


def by_type(signal: Signal, scale: float = 1.0) -> Tolerance:
    """Return a C type's default tolerance: relative for floating-point types, else absolute."""
    if signal.type == "float64":
        return DOUBLE
    if signal.type == "float32":
        return SINGLE
    return EXACT if scale == 1.0 else Tolerance(abs(scale) * (1.0 + 1e-9), 0.0)


def one_step(default: Tolerance, signal: Signal, values: Values) -> Tolerance:
    """Return the tolerance of one step in the unit of the output.

    For a floating-point output, ``default`` is a fraction of the scale. ``values`` (n, 1) contains
    the outputs of the reference controller.
    """
    if not signal.type.startswith("float"):
        return default
    return Tolerance(default.absolute * scale_of(values, signal), default.relative)


def in_the_loop(one_step: Iterable[Tolerance]) -> Tolerance:
    """Return the tolerance in closed loop from the tolerance of one step.

    Only floating-point outputs contribute. For scaled integers, only the user knows the effect of
    one unit on other signals.
    """
    loosest = Tolerance(*(max(values) for values in zip(DOUBLE, *one_step, strict=True)))
    return Tolerance(*(IN_THE_LOOP * value for value in loosest))


def of_signals(
    shares: Tolerance, baseline: Recording, stated: Mapping[str, Tolerance]
) -> dict[str, Tolerance]:
    """Return the default tolerance of each signal in closed loop.

    ``shares`` comes from :func:`in_the_loop`. ``stated`` contains the interface files' rules, which
    :func:`for_tracks` has converted. The absolute tolerance is the same fraction of the range for
    each signal. The fraction in closed loop is 1000 times the fraction of one step, but at most a
    tenth. A fraction of one step above a tenth stays the same in closed loop. The relative
    tolerance is that of one step, because the closed loop does not amplify an offset.
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
    """Return all rules in order; of two rules with the same pattern, keep the last one."""
    out: dict[str, Tolerance] = {}
    for some in rules:
        for pattern, tolerance in some.items():
            out.pop(pattern, None)
            out[pattern] = tolerance
    return out


def checked(tolerances: Tolerances | None) -> dict[str, Tolerance]:
    """Return ``tolerances`` by pattern.

    Raises ``ScenarioError`` for a tolerance that is negative or not finite.
    """
    given = tolerances or {}
    return {pattern: tolerance_of(pattern, values) for pattern, values in given.items()}


def declared(controllers: Iterable[object]) -> dict[str, Tolerance]:
    """Return the rules of interface files, which rules of the command line can replace."""
    out: dict[str, Tolerance] = {}
    for controller in controllers:
        interface = interface_of(controller)
        rules = {} if interface is None else interface.tolerances
        given = {pattern: Tolerance(*values) for pattern, values in rules.items()}
        out = one_after_the_other(out, given)
    return out


def names_of(controller: str, column: str) -> tuple[str, ...]:
    return column, f"{controller}.{column}", f"messages/{controller}.{column}"


def of_output(
    rules: Mapping[str, Tolerance], controller: str, column: str, default: Tolerance
) -> Tolerance:
    names = names_of(controller, column)
    fitting = [t for pattern, t in rules.items() if fnmatch.filter(names, pattern)]
    return fitting[-1] if fitting else default


def for_tracks(
    rules: Mapping[str, Tolerance], outputs: Mapping[str, Iterable[str]], known: Iterable[str]
) -> dict[str, Tolerance]:
    """Return the rules in the form that ``rtsim.record.comparison.compare`` needs.

    ``outputs`` contains the outputs of each controller, and ``known`` all names of signals.
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
    known = list(names)
    return {pattern: t for pattern, t in rules.items() if fnmatch.filter(known, pattern)}


def refuse_unknown(patterns: Iterable[str], known: Iterable[str], where: str = "") -> None:
    """Raise an error for a pattern that matches no name."""
    names = list(dict.fromkeys(known))
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise ScenarioError(
                f"{where}no signal matches {pattern!r}; names of signals are, for example, "
                f"{', '.join(names[:3])}"
            )


# Checks of C code other than its answers: period, parameters and initialisation.

PERIOD = "the period is that of the scenario"
OWN_VALUES = "the parameters of the C are those of the reference model"
INITIALIZED_AGAIN = "a second initialisation gives the same answers"


class Check(NamedTuple):
    """A check; ``problem`` is empty if the check passed."""

    what: str
    problem: str = ""


def of_interface(
    name: str, design: ControllerProtocol, translation: ControllerProtocol, period: Period | None
) -> Iterator[Check]:
    """Yield the checks of a controller in C that has an interface file.

    ``translation`` replaces the reference controller ``design``, whose period in the scenario is
    ``period``. The controller must be running, because only running C code reports its parameters.
    """
    interface = interface_of(translation)
    if interface is None:
        return
    if period is not None:
        yield Check(PERIOD, another_period(name, interface, period))
    own = own_parameters_of(translation)
    shared = [s for s in interface.parameters if s.name in parameters_of(design)]
    if own is not None and shared:
        yield Check(OWN_VALUES, _other_values(name, design, interface, own))


def another_period(name: str, interface: Interface, period: Period) -> str:
    """Return why the period in the interface file is wrong, or ""."""
    if interface.period == period or interface.any_period:
        return ""
    return (
        f"{name}: the interface file declares a period of {float(interface.period.ns) / 1e9:g} s, "
        f"but the scenario samples the controller every {float(period.ns) / 1e9:g} s; make both "
        "periods the same, or write any_period = true in "
        f"{interface.path.name} if the step does not depend on the period"
    )


def _other_values(name: str, design: ControllerProtocol, interface: Interface, own: Vector) -> str:
    theirs = parameters_of(design)
    declared, used = theirs.initial({}), theirs.initial(values_of(design))
    for place in interface.parameter_fields:
        signal = place.signal
        if signal.name not in theirs or place.set_by_caller:
            continue
        here = own[interface.parameters.slice(signal.name)]
        wanted = [v[theirs.slice(signal.name)] for v in (declared, used)]
        if here.any() and not any(_same(place, here, values) for values in wanted):
            at = int(np.argmin([_same(place, here[k], wanted[0][k]) for k in range(len(here))]))
            return (
                f"{name}: parameter {signal.columns[at]} is {float(here[at])!r} in the C code and "
                f"{float(wanted[0][at])!r} in the reference model. The comparison sets the "
                "reference model's value before the first step, but on the target nobody sets it: "
                "correct the value in the C code, or write set_by_caller = true for "
                f"{signal.name} in {interface.path.name} if the C's caller sets it"
            )
    return ""


def _same(place: Field, here: Vector, wanted: Vector) -> bool:
    if place.scaled or "int" in place.signal.type:
        allowed = abs(place.scale) if place.scaled else 0.0
        return bool((np.abs(here - wanted) <= allowed * (1.0 + 1e-9)).all())
    if place.signal.type == "bool":
        return bool(((here != 0) == (wanted != 0)).all())
    relative = (SINGLE if place.signal.type == "float32" else DOUBLE).relative
    with np.errstate(invalid="ignore"):
        near = np.isfinite(wanted) & (np.abs(here - wanted) <= relative * np.abs(wanted))
    return bool((near | (here == wanted) | (np.isnan(here) & np.isnan(wanted))).all())

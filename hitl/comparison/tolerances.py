"""How far a translation may be from its design: by default, for all signals, and for some.

A rule is ``(absolute, relative)`` by pattern, as in ``rtsim compare``.  Patterns fit an output by
its own name (``force``), by controller (``controller.force``) and by track
(``messages/controller.force``); in the loop also the signals of every track (``plant.*``).
Where several fit, the last one counts.
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
from rtsim.record.verdict import EXACT, LARGE, Tolerance, Values

Tolerances = Mapping[str, Tolerance | tuple[float, float]]

DOUBLE, SINGLE = Tolerance(1e-12, 1e-9), Tolerance(1e-6, 1e-5)
"""Of one step on equal inputs, by the type of the C output: of its range, and of each value.

A double leaves room for another order of a sum and another libm; a float rounds at 6e-8, its
inputs too, and differences of near values cost two digits more.  Both are shares, so that a verdict
is the same in N m and in uN m: rounding has the size of the terms that were added, and what a
signal spans is the best that is known of that size.  What is scaled may be one count off; other
integers and bool are exact.
"""
IN_THE_LOOP = 1000.0
"""So many times as far may a trajectory be, by default: the loop carries what each step adds."""
_TURN = {"deg": 360.0, "rad": 2.0 * math.pi}
AT_REST = 1e-12
"""What spans less than this, in its unit, does not move; what is smaller than this is 0."""


def span_of(values: Values, signal: Signal) -> float:
    """How far the widest element of ``signal`` moves in ``values`` (n, size); finite ones count."""
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
    """What the shares of ``signal`` are taken of: its range in ``values`` (n, size).

    Of one that does not move, its largest absolute value; 1 where it is 0 throughout, which the
    verdict lists among what was not exercised.
    """
    span = span_of(values, signal)
    if span >= AT_REST:
        return span
    size = float(np.abs(values).max(initial=0.0, where=np.isfinite(values)))
    return size if size >= AT_REST else 1.0


def by_type(signal: Signal, scale: float = 1.0) -> Tolerance:
    """The default of an output of the C; of one in floating point as shares."""
    if signal.type == "float64":
        return DOUBLE
    if signal.type == "float32":
        return SINGLE
    return EXACT if scale == 1.0 else Tolerance(abs(scale) * (1.0 + 1e-9), 0.0)


def one_step(default: Tolerance, signal: Signal, values: Values) -> Tolerance:
    """The default of an output whose design says ``values`` (n, 1): its shares in its unit."""
    if not signal.type.startswith("float"):
        return default
    return Tolerance(default.absolute * scale_of(values, signal), default.relative)


def in_the_loop(one_step: Iterable[Tolerance]) -> Tolerance:
    """The shares of every signal while controllers fly whose floating outputs have these.

    What a count of a scaled integer does to other signals only the user knows.
    """
    loosest = Tolerance(*(max(values) for values in zip(DOUBLE, *one_step, strict=True)))
    return Tolerance(*(IN_THE_LOOP * value for value in loosest))


def of_signals(
    shares: Tolerance, baseline: Recording, stated: Mapping[str, Tolerance]
) -> dict[str, Tolerance]:
    """The default of each signal of a flight, by its name; ``shares`` are of :func:`in_the_loop`.

    What the loop makes of a difference is a share of how far the signal moves.  Where an interface
    file allows its outputs more in one step (``stated``, as :func:`for_tracks` makes it), the share
    is larger, up to a tenth; or up to what the file itself allows in each step, where an output
    spans less than ten times its tolerance, as in a short stretch of level flight.  Of the value
    itself it is what one step rounds: nothing multiplies an offset.
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
    """Of the range of each message that a rule means, how much it allows."""
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
    """All of them in order: a pattern that is said again counts where it is said last."""
    out: dict[str, Tolerance] = {}
    for some in rules:
        for pattern, tolerance in some.items():
            out.pop(pattern, None)
            out[pattern] = tolerance
    return out


def checked(tolerances: Tolerances | None) -> dict[str, Tolerance]:
    """As given; :class:`ScenarioError` for what is negative or no number."""
    out = {}
    for pattern, values in (tolerances or {}).items():
        if len(values) != 2 or any(not v >= 0 for v in values):
            raise ScenarioError(
                f"the tolerance {tuple(values)} of {pattern!r} is not (absolute, relative) >= 0"
            )
        out[pattern] = Tolerance(*values)
    return out


def declared(controllers: Iterable[object]) -> dict[str, Tolerance]:
    """The rules that interface files state; what a user says of a run comes after them."""
    out: dict[str, Tolerance] = {}
    for controller in controllers:
        interface = interface_of(controller)
        rules = {} if interface is None else interface.tolerances
        given = {pattern: Tolerance(*values) for pattern, values in rules.items()}
        out = one_after_the_other(out, given)
    return out


def names_of(controller: str, column: str) -> tuple[str, ...]:
    """The names by which a rule can mean an output."""
    return column, f"{controller}.{column}", f"messages/{controller}.{column}"


def of_output(
    rules: Mapping[str, Tolerance], controller: str, column: str, default: Tolerance
) -> Tolerance:
    """The last rule that fits the output, or the default."""
    names = names_of(controller, column)
    fitting = [t for pattern, t in rules.items() if fnmatch.filter(names, pattern)]
    return fitting[-1] if fitting else default


def for_tracks(
    rules: Mapping[str, Tolerance], outputs: Mapping[str, Iterable[str]], known: Iterable[str]
) -> dict[str, Tolerance]:
    """The rules as :func:`rtsim.record.comparison.compare` takes them.

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
            out.pop(name, None)  # the last one counts, where it stands
            out[name] = tolerance
    return out


def fitting(rules: Mapping[str, Tolerance], names: Iterable[str]) -> dict[str, Tolerance]:
    """Those that mean one of ``names``."""
    known = list(names)
    return {pattern: t for pattern, t in rules.items() if fnmatch.filter(known, pattern)}


def refuse_unknown(patterns: Iterable[str], known: Iterable[str], where: str = "") -> None:
    """A rule that fits nothing is a typing error; ``where`` it stands is told first."""
    names = list(dict.fromkeys(known))
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise ScenarioError(
                f"{where}no signal fits {pattern!r}; signals look like {', '.join(names[:3])}"
            )

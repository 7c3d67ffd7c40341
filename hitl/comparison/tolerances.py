"""How far a translation may be from its design: by default, for all signals, and for some.

A rule is ``(absolute, relative)`` by pattern, as in ``rtsim compare``.  Patterns fit an output by
its own name (``force``), by controller (``controller.force``) and by track
(``messages/controller.force``); in the loop also the signals of every track (``plant.*``).
Where several fit, the last one counts.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping

from rtsim.errors import ScenarioError
from rtsim.record.verdict import EXACT, Tolerance
from rtsim.signals import Signal

Tolerances = Mapping[str, Tolerance | tuple[float, float]]

DOUBLE, SINGLE = Tolerance(1e-12, 1e-9), Tolerance(1e-6, 1e-5)
"""Of one step on equal inputs, by the type of the C output.

A double leaves room for another order of a sum and another libm; a float rounds at 6e-8, its
inputs too, and differences of near values cost two digits more.  What is scaled may be one count
off; other integers and bool are exact.
"""
IN_THE_LOOP = 1000.0
"""So many times as far may a trajectory be, by default: the loop carries what each step adds."""


def by_type(signal: Signal, scale: float = 1.0) -> Tolerance:
    """The default of an output of the C."""
    if signal.type == "float64":
        return DOUBLE
    if signal.type == "float32":
        return SINGLE
    return EXACT if scale == 1.0 else Tolerance(abs(scale) * (1.0 + 1e-9), 0.0)


def in_the_loop(one_step: Iterable[Tolerance]) -> Tolerance:
    """The default of every signal while controllers fly whose floating outputs have these.

    What a count of a scaled integer does to other signals only the user knows.
    """
    loosest = Tolerance(*(max(values) for values in zip(DOUBLE, *one_step, strict=True)))
    return Tolerance(*(IN_THE_LOOP * value for value in loosest))


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
    out = {}
    for controller in controllers:
        rules = getattr(getattr(controller, "interface", None), "tolerances", {})
        out.update({pattern: Tolerance(*values) for pattern, values in rules.items()})
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


def refuse_unknown(rules: Mapping[str, Tolerance], known: Iterable[str]) -> None:
    """A rule that fits nothing is a typing error."""
    names = list(dict.fromkeys(known))
    for pattern in rules:
        if not fnmatch.filter(names, pattern):
            raise ScenarioError(
                f"no signal fits {pattern!r}; signals look like {', '.join(names[:3])}"
            )

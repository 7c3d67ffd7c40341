"""Linear systems of other packages, which are recognised by their attributes.

The packages themselves are not imported: python-control's ``StateSpace`` and the one of
``scipy.signal`` have A, B, C, D and dt; a transfer function has num, den and dt.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Period

_LABEL = re.compile(r"(?P<name>.*?)(?: \[(?P<unit>[^\]]*)\])?\Z", re.S)


def is_foreign(system: object) -> bool:
    """Return whether ``system`` looks like a linear system of python-control or scipy.signal."""
    return (
        not isinstance(system, type)
        and hasattr(system, "dt")
        and (all(hasattr(system, name) for name in "ABCD") or is_fraction(system))
    )


def is_fraction(system: object) -> bool:
    """Return whether ``system`` looks like a transfer function."""
    return hasattr(system, "num") and hasattr(system, "den") and hasattr(system, "dt")


def labels_of(system: Any, kind: str, default: Signals) -> Signals:
    """Return signals with the names and units of labels such as ``"name [unit]"``.

    ``kind`` is "state", "input" or "output".  ``default`` is returned if there are no labels.
    """
    labels = getattr(system, f"{kind}_labels", None)
    if labels is None or len(labels) != default.size:
        return default
    signals = []
    for label in labels:
        match = _LABEL.match(str(label))
        assert match is not None
        name = re.sub(r"\W", "_", match["name"])
        name = name if name and not name[0].isdigit() else f"_{name}"
        signals.append(Signal(name, match["unit"] or "1"))
    return Signals(*signals)


def period_of(system: Any) -> Period | None:
    """Return the sample period of ``system``; ``None`` if it is continuous in time."""
    dt = system.dt
    if dt is None or (dt is not True and dt == 0):
        return None
    if dt is True:
        raise ScenarioError(
            "the system is sampled, but has no sample period (dt=True); give its dt in s"
        )
    return Period.of(float(dt))


def polynomials(system: Any) -> tuple[list[float], list[float]]:
    """Return numerator and denominator of a transfer function with one input and one output."""
    out: list[list[float]] = []
    for name in ("num", "den"):
        given = getattr(system, name)
        while isinstance(given, list) or (isinstance(given, np.ndarray) and given.ndim > 1):
            if len(given) != 1:
                if not isinstance(given[0], list | np.ndarray):
                    break
                raise ScenarioError(
                    "the transfer function has several inputs or outputs; convert it to a state "
                    "space first: control.ss(system)"
                )
            given = given[0]
        out.append([float(v) for v in np.atleast_1d(given)])
    return out[0], out[1]

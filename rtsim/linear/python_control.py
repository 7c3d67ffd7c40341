"""The only module that imports python-control (extra ``control``; docs/decisions/139)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signals

if TYPE_CHECKING:
    from rtsim.linear.state_space import StateSpace


def to_control(system: StateSpace) -> Any:
    """Return ``system`` as a ``StateSpace`` of python-control."""
    try:
        import control
    except ImportError as error:
        raise ScenarioError(
            "python-control is not installed; type: pip install 'rtsim[control]'"
        ) from error
    dt = 0 if system.period is None else system.period.seconds
    names = {"name": system.name.replace(".", "_")} if system.name else {}
    return control.StateSpace(
        system.a, system.b, system.c, system.d, dt,
        states=_labels(system.states), inputs=_labels(system.inputs),
        outputs=_labels(system.outputs), remove_useless_states=False, **names,
    )  # fmt: skip


def _labels(signals: Signals) -> list[str]:
    return [
        column if signal.unit in ("", "1") else f"{column} [{signal.unit}]"
        for signal in signals
        for column in signal.columns
    ]

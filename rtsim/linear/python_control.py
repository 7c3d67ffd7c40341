"""The only module that imports python-control (extra ``control``; docs/decisions/139)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signals
from rtsim.core.tag import Period


def to_control(
    matrices: Sequence[NDArray[np.float64]],
    signals: Sequence[Signals],
    period: Period | None,
    name: str,
) -> Any:
    """Return a ``StateSpace`` of python-control.

    ``matrices`` are A, B, C and D; ``signals`` are states, inputs and outputs.
    """
    try:
        import control
    except ImportError as error:
        raise ScenarioError(
            "python-control is not installed; type: pip install 'rtsim[control]'"
        ) from error
    dt = 0 if period is None else period.seconds
    states, inputs, outputs = map(_labels, signals)
    names = {"name": name.replace(".", "_")} if name else {}
    return control.StateSpace(
        *matrices, dt, states=states, inputs=inputs, outputs=outputs,
        remove_useless_states=False, **names,
    )  # fmt: skip


def _labels(signals: Signals) -> list[str]:
    return [
        column if signal.unit in ("", "1") else f"{column} [{signal.unit}]"
        for signal in signals
        for column in signal.columns
    ]

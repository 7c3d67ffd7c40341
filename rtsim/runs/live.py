"""Show the values of a run that is advanced step by step.

In a notebook, each update replaces the previous output. The display needs no widgets, and an
exported notebook contains the last output.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from rtsim.core.signals import Signal
from rtsim.runs.progress import Pulse, TerminalLine, notebook_display

_WIDTH, _HEIGHT = 360, 48
"""Size of the plot of one signal, pixels."""
_MOST = 2048
"""Maximum number of points of a plot; beyond this number, every other point is dropped."""


class Readable(Protocol):
    """Interface of a run with readable present values, such as ``Simulation``."""

    @property
    def time(self) -> float: ...

    def __getitem__(self, name: str) -> Any: ...


class Plots:
    """Values of signals over time, as text or as HTML with one plot for each signal."""

    def __init__(self, signals: Mapping[str, Signal]) -> None:
        """Prepare one plot for each signal, and for each element of an array."""
        self._units: dict[str, str] = {}
        for name, signal in signals.items():
            owner = name.partition(".")[0]
            self._units.update((f"{owner}.{column}", signal.unit) for column in signal.columns)
        self._rows: list[tuple[float, ...]] = []
        """Time (s) and values at each point."""
        self._every, self._count = 1, 0
        self._last: tuple[float, ...] = ()

    def add(self, time: float, values: list[float]) -> None:
        self._last = (time, *values)
        if self._count % self._every == 0:
            self._rows.append(self._last)
        self._count += 1
        if len(self._rows) > _MOST:
            del self._rows[1::2]
            self._every *= 2

    def __repr__(self) -> str:
        time, *values = self._last
        shown = [f"{n} = {v:.4g}{_unit(u)}" for (n, u), v in self._of(values)]
        return f"{time:g} s  {'  '.join(shown)}"

    def _of(self, values: list[float]) -> list[tuple[tuple[str, str], float]]:
        return list(zip(self._units.items(), values, strict=True))

    def _repr_html_(self) -> str:
        time, *values = self._last
        points = np.array([*self._rows, self._last])
        rows = [
            f"<tr><td>{html.escape(name)}</td><td>{value:.4g}{html.escape(_unit(unit))}</td>"
            f"<td>{_line(points[:, 0], points[:, i])}</td></tr>"
            for i, ((name, unit), value) in enumerate(self._of(values), 1)
        ]
        return f"<table><tr><td>time</td><td>{time:g} s</td><td></td></tr>{''.join(rows)}</table>"


def _unit(unit: str) -> str:
    return "" if unit in ("", "1") else f" {unit}"


def _line(t: Any, y: Any) -> str:
    """Return the curve ``y`` (n,) over ``t`` (n,) as SVG."""
    low, high = float(y.min()), float(y.max())
    x = _WIDTH * (t - t[0]) / (t[-1] - t[0] or 1.0)
    down = _HEIGHT * ((high - y) / (high - low) if high > low else np.full(len(y), 0.5))
    points = " ".join(f"{a:.1f},{b + 2:.1f}" for a, b in np.stack([x, down], 1).tolist())
    return (
        f"<svg width='{_WIDTH}' height='{_HEIGHT + 4}' role='img' "
        f"aria-label='from {low:.4g} to {high:.4g}'>"
        f"<polyline points='{points}' fill='none' stroke='currentColor'/></svg>"
    )


class LiveView:
    """Show the present values of signals in a notebook or on the terminal."""

    def __init__(self, signals: Mapping[str, Signal]) -> None:
        self._names = list(signals)
        self._plots = Plots(signals)
        self._pulse = Pulse(first_ns=0)
        self._display = notebook_display()
        self._handle: Any = None
        self._line = TerminalLine()

    def follow(self, run: Readable, last: bool) -> None:
        """Read the present values of ``run``, and show them if an update is due."""
        found = [np.atleast_1d(run[name]).ravel().tolist() for name in self._names]
        self._plots.add(run.time, [value for values in found for value in values])
        if not (self._pulse.due() or last):
            return
        if self._display is None:
            if last:
                self._line.keep(repr(self._plots))
            else:
                self._line.write(repr(self._plots), 0.0)
        elif self._handle is None:
            self._handle = self._display(self._plots, display_id=True)
        else:
            self._handle.update(self._plots)

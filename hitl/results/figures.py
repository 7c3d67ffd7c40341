"""Plots for the HTML page: a signal of both sides, and their difference."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from hitl.comparison.sides import C_AGAINST_DESIGN, Sides
from rtsim.core.signals import Vector
from rtsim.record.plotly_html import BLUE, GREY, ORANGE, RED, plot_html
from rtsim.record.reports.charts import thin

_HEIGHT = 380
GREEN, PURPLE = "#1b7f4b", "#7a3fb0"
_STYLES = ((ORANGE, "dash", RED), (GREEN, "dot", PURPLE))
"""Colour and dash of each further trace, and the colour of its difference."""


@dataclass(frozen=True)
class Traces:
    """A signal of both sides at the same times; all vectors are (n,), NaN where data is missing."""

    name: str
    unit: str
    seconds: Vector
    design: Vector
    translation: Vector
    gap: Vector
    """The difference of both sides, as the verdict measures it."""
    allowed: Vector
    first_failed: float | None = None
    """Time of the first failure, s; ``None`` if there is none."""
    held: bool = True
    """True if the signal is constant between two points, as the outputs of a controller are."""
    sides: Sides = C_AGAINST_DESIGN
    then: Traces | None = None
    """The same signal of the next level, which is compared with this translation."""

    @property
    def chain(self) -> list[Traces]:
        """This pair of traces and the pairs of the next levels."""
        return [self, *(self.then.chain if self.then is not None else ())]


def traces_html(traces: Traces, *, when_opened: bool = False) -> str:
    """Return a plot of all traces; below it, differences and tolerance on a logarithmic axis.

    With ``when_opened``, the page draws the plot only when the reader opens its section.
    """
    unit = "" if traces.unit in ("", "1") else f" [{traces.unit}]"
    figure = make_subplots(2, 1, shared_xaxes=True, row_heights=[0.58, 0.42], vertical_spacing=0.06)
    shape = "hv" if traces.held else "linear"
    chain = traces.chain
    line = {"color": BLUE, "width": 2.6, "dash": "solid", "shape": shape}
    _add(figure, 1, traces.seconds, traces.design, traces.sides.reference, line=line)
    for pair, (color, dash, _) in zip(chain, _STYLES, strict=False):
        line = {"color": color, "width": 1.3, "dash": dash, "shape": shape}
        _add(figure, 1, pair.seconds, pair.translation, pair.sides.translation, line=line)
    for pair, (_, _, color) in zip(chain, _STYLES, strict=False):
        _add_gap(figure, pair, color, "difference" if len(chain) == 1 else pair.sides.gap)
    allowed = np.where(traces.allowed > 0, traces.allowed, np.nan)
    line = {"color": GREY, "width": 1.2, "dash": "dot", "shape": shape}
    _add(figure, 2, traces.seconds, allowed, "allowed", line=line)
    failed = [pair.first_failed for pair in chain if pair.first_failed is not None]
    if failed:
        _mark(figure, min(failed))
    figure.update_yaxes(title=html.escape(f"{traces.name}{unit}"), row=1, col=1)
    apart = f"|{traces.sides.gap}|" if len(chain) == 1 else "differences"
    figure.update_yaxes(title=f"{apart}{html.escape(unit)}", type="log", row=2, col=1)
    figure.update_yaxes(exponentformat="power", minexponent=5, title_font_size=12)
    figure.update_xaxes(title="time [s]", row=2, col=1)
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    figure.update_layout(height=_HEIGHT, legend=legend)
    if not any((pair.gap != 0).any() for pair in chain):
        _say_equal(figure)
    return plot_html(figure, when_opened=when_opened)


def _add_gap(figure: go.Figure, pair: Traces, color: str, name: str) -> None:
    far = (pair.gap > 0) & np.isfinite(pair.gap)
    gap = np.where(far, pair.gap, np.nan)  # a log axis has no 0
    line, marker = {"color": color, "width": 1}, {"color": color, "size": 3}
    _add(figure, 2, pair.seconds, gap, name, line=line, marker=marker, mode="lines+markers")


def _add(figure: go.Figure, row: int, t: Vector, y: Vector, name: str, **style: object) -> None:
    """Add a thinned trace; values that are not finite are gaps."""
    some = np.isfinite(y).any()
    x, shown = thin(t, y) if some else (t[:0], y[:0])
    style.setdefault("mode", "lines" if len(x) > 2 else "lines+markers")
    figure.add_trace(go.Scatter(x=x, y=shown, name=name, connectgaps=False, **style), row, 1)


def _mark(figure: go.Figure, seconds: float) -> None:
    """Mark the time of the first failure."""
    line = {"color": RED, "width": 1.4, "dash": "dash"}
    for row in (1, 2):
        figure.add_vline(x=seconds, line=line, row=row, col=1)
    figure.add_annotation(
        x=seconds, y=1.0, xref="x", yref="y domain", text=f"first failure, {seconds:.9g} s",
        showarrow=False, xanchor="left", yanchor="top", font={"color": RED, "size": 12},
    )  # fmt: skip


def _say_equal(figure: go.Figure) -> None:
    figure.add_annotation(
        x=0.5, y=0.5, xref="x2 domain", yref="y2 domain", text="no difference", showarrow=False,
        font={"color": GREY, "size": 13},
    )  # fmt: skip

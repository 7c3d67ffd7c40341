"""The page's plots: a signal of design and C, and how far they are apart; C and board likewise."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from hitl.comparison.sides import C_AGAINST_DESIGN, Sides
from rtsim.core.signals import Vector
from rtsim.record.figures import BLUE, GREY, ORANGE, RED, plot_html
from rtsim.record.thinning import thin

_HEIGHT = 380
GREEN, PURPLE = "#1b7f4b", "#7a3fb0"
_STYLES = ((ORANGE, "dash", RED), (GREEN, "dot", PURPLE))
"""Of each further trace its colour and dash, and the colour of its difference."""


@dataclass(frozen=True)
class Traces:
    """A signal twice over the same times: all (n,), NaN where there is nothing."""

    name: str
    unit: str
    seconds: Vector
    design: Vector
    translation: Vector
    gap: Vector
    """Their distance, the way the verdict takes it."""
    allowed: Vector
    first_failed: float | None = None
    """s."""
    held: bool = True
    """Between two points it stays as it was, as what a controller answers does."""
    sides: Sides = C_AGAINST_DESIGN
    then: Traces | None = None
    """Of who is held against this translation, in the same flight or steps."""

    @property
    def chain(self) -> list[Traces]:
        """This pair, and those that are held against it."""
        return [self, *(self.then.chain if self.then is not None else ())]


def traces_html(traces: Traces, *, when_opened: bool = False) -> str:
    """All traces, below them their distances on a log axis with what is allowed."""
    unit = "" if traces.unit in ("", "1") else f" [{traces.unit}]"
    figure = make_subplots(2, 1, shared_xaxes=True, row_heights=[0.58, 0.42], vertical_spacing=0.06)
    shape = "hv" if traces.held else "linear"
    chain = traces.chain
    line = {"color": BLUE, "width": 2.6, "dash": "solid", "shape": shape}
    _add(figure, 1, traces.seconds, traces.design, traces.sides.design, line=line)
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
    """A trace, thinned; what is not finite is a gap."""
    some = np.isfinite(y).any()
    x, shown = thin(t, y) if some else (t[:0], y[:0])
    style.setdefault("mode", "lines" if len(x) > 2 else "lines+markers")
    figure.add_trace(go.Scatter(x=x, y=shown, name=name, connectgaps=False, **style), row, 1)


def _mark(figure: go.Figure, seconds: float) -> None:
    """The first divergence."""
    line = {"color": RED, "width": 1.4, "dash": "dash"}
    for row in (1, 2):
        figure.add_vline(x=seconds, line=line, row=row, col=1)
    figure.add_annotation(
        x=seconds, y=1.0, xref="x", yref="y domain", text=f"first divergence, {seconds:.9g} s",
        showarrow=False, xanchor="left", yanchor="top", font={"color": RED, "size": 12},
    )  # fmt: skip


def _say_equal(figure: go.Figure) -> None:
    figure.add_annotation(
        x=0.5, y=0.5, xref="x2 domain", yref="y2 domain", text="no difference", showarrow=False,
        font={"color": GREY, "size": 13},
    )  # fmt: skip

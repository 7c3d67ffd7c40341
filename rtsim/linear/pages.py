"""HTML page with Bode and Nichols plots of open loops, and the poles of a plant."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rtsim.core.errors import RecordingError
from rtsim.linear.crossings import frequencies, return_ratio
from rtsim.linear.state_space import StateSpace
from rtsim.record.markup import table, text
from rtsim.record.plotly_html import BLUE, GREY, RED, go, make_subplots, plot_html
from rtsim.record.reports.page import page

_STYLE = """
.plot { min-width: 0; background: none; }
@media (prefers-color-scheme: dark) {
  .plot text { fill: #c3cad4 !important; }
  .plot .gridlayer path, .plot .zerolinelayer path { stroke: #39414d !important; }
  .plot .scatterlayer { filter: brightness(1.6); }
}
"""
"""Styles that fit the plots to a phone and keep their texts readable on a dark page."""
_CLEAR = "rgba(0,0,0,0)"
_GAIN_RANGE = 60.0
_RINGS = (0.5, 1.0, 3.0, 6.0, 12.0)


class Table(NamedTuple):
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def html(self) -> str:
        return table(self.head, self.rows, numeric=1) if self.rows else ""


def write_page(
    path: Path, title: str, head: str, plant: StateSpace, loops: Mapping[str, StateSpace],
    margins: Table, poles: Table, slow: float = 0.0,
) -> None:  # fmt: skip
    """Write an HTML page with the margins and plots of open loops, and the poles of a plant.

    ``loops`` contains open loops with one input and one output, by name. ``head`` is the text below
    the title. The plots begin at the frequency ``slow`` (rad/s), below which the margins are not
    computed.
    """
    sections = [("margins", "Margins", margins.html())]
    for i, (name, loop) in enumerate(loops.items()):
        sections.append((f"bode-{i}", f"Bode: {text(name)}", _bode(loop, slow)))
        sections.append((f"nichols-{i}", f"Nichols: {text(name)}", _nichols(loop, slow)))
    sections.append(("poles", "Poles of the plant", _poles(plant) + poles.html()))
    top = f"<h1>{text(title)}</h1><p>{text(head)}</p>"
    made = page(title, top, sections, style=_STYLE, generator="rtsim")
    try:
        path.write_text(made, encoding="utf-8")
    except OSError as error:
        raise RecordingError(f"cannot write {path}: {error.strerror}") from error


def _drawn(figure: go.Figure) -> str:
    figure.update_layout(paper_bgcolor=_CLEAR, plot_bgcolor=_CLEAR, modebar_bgcolor=_CLEAR)
    return plot_html(figure)


def bode_data(loop: StateSpace, slow: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return frequency (rad/s), gain (dB) and phase (deg) of the return ratio, each (k,).

    The frequencies begin at ``slow`` rad/s. The phase is continuous. The phase at the lowest
    frequency is between -360 and 0 deg.
    """
    omega = frequencies(loop, 1200)
    omega = omega[omega >= min(slow, omega[-1] / 10.0)]
    values = return_ratio(loop, omega, 1.0)
    phase = np.degrees(np.unwrap(np.angle(values)))
    phase -= 360.0 * np.ceil((phase[0] - 1e-6) / 360.0)
    return omega, 20.0 * np.log10(np.maximum(np.abs(values), 1e-300)), phase


def _bode(loop: StateSpace, slow: float) -> str:
    omega, gain, phase = bode_data(loop, slow)
    figure = make_subplots(2, 1, shared_xaxes=True, vertical_spacing=0.08)
    for row, (values, name) in enumerate(((gain, "gain [dB]"), (phase, "phase [deg]")), start=1):
        line = {"color": BLUE, "width": 1.5}
        trace = go.Scatter(x=omega, y=values, mode="lines", line=line, showlegend=False, name=name)
        figure.add_trace(trace, row, 1)
        figure.update_yaxes(title=name, row=row, col=1)
    figure.add_hline(0.0, line_color=GREY, line_width=1, row=1, col=1)
    figure.add_hline(-180.0, line_color=GREY, line_width=1, row=2, col=1)
    figure.update_xaxes(type="log", exponentformat="power")
    figure.update_xaxes(title="frequency [rad/s]", row=2, col=1)
    figure.update_layout(height=460)
    return _drawn(figure)


def _nichols(loop: StateSpace, slow: float) -> str:
    _, gain, phase = bode_data(loop, slow)
    shown = np.abs(gain) <= _GAIN_RANGE
    figure = go.Figure()
    turns = sorted({float(np.floor(p / 360.0)) for p in phase[shown]}) or [-1.0]
    for ring in _RINGS:
        for turn in turns:
            x, y = _contour(ring)
            figure.add_trace(
                go.Scatter(
                    x=x + 360.0 * (turn + 1.0), y=y, mode="lines", hoverinfo="text",
                    line={"color": GREY, "width": 0.7, "dash": "dot"}, showlegend=False,
                    text=f"closed loop {ring:g} dB",
                )
            )  # fmt: skip
    figure.add_trace(
        go.Scatter(
            x=phase[shown], y=gain[shown], mode="lines", line={"color": BLUE, "width": 1.5},
            showlegend=False, name="loop",
        )
    )  # fmt: skip
    marks = [-180.0 + 360.0 * (turn + 1.0) for turn in turns]
    figure.add_trace(
        go.Scatter(
            x=marks, y=[0.0] * len(marks), mode="markers", showlegend=False,
            marker={"color": RED, "size": 9, "symbol": "x"}, name="critical point",
        )
    )  # fmt: skip
    figure.update_xaxes(title="phase [deg]", dtick=45)
    figure.update_yaxes(title="gain [dB]")
    figure.update_layout(height=460)
    return _drawn(figure)


def _contour(ring: float) -> tuple[np.ndarray, np.ndarray]:
    angle = np.linspace(1e-3, 2.0 * np.pi - 1e-3, 200)
    closed = 10.0 ** (ring / 20.0) * np.exp(1j * angle)
    opened = closed / (1.0 - closed)
    phase = np.degrees(np.angle(opened)) % 360.0 - 360.0
    return phase, 20.0 * np.log10(np.abs(opened))


def _poles(plant: StateSpace) -> str:
    values = [p.value for p in plant.poles]
    values += [v.conjugate() for v in values if v.imag]
    label = "z" if plant.period is not None else "s"
    figure = go.Figure(
        go.Scatter(
            x=[v.real for v in values], y=[v.imag for v in values], mode="markers",
            marker={"color": BLUE, "size": 9, "symbol": "x"}, showlegend=False,
            text=[html.escape(f"{v.real:.4g} {v.imag:+.4g}i") for v in values], hoverinfo="text",
        )
    )  # fmt: skip
    figure.add_vline(0.0, line_color=GREY, line_width=1)
    figure.update_xaxes(title=f"real part of {label}")
    figure.update_yaxes(title=f"imaginary part of {label}")
    figure.update_layout(height=380)
    return _drawn(figure)

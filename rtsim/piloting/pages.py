"""The section of a task in the report of a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rtsim.piloting.findings import Findings
from rtsim.piloting.task import measure, tasks_of
from rtsim.record.markup import table, text
from rtsim.record.page import Section

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from rtsim.piloting.tracked import TrackedAxis
    from rtsim.record.reading import Recording

_MOST_POINTS = 2000


def task_section(recording: Recording) -> Section | None:
    """Return the section of the task in ``recording``, or ``None`` if there is no task."""
    if not tasks_of(recording):
        return None
    found = measure(recording)
    body = _table(found) + "".join(f"<p>{text(note)}</p>" for note in found.notes)
    for figure in found.figures:
        body += _figures(figure)
    return "task", "Task", body


def _table(found: Findings) -> str:
    whole = "" if found.complete else " (incomplete)"
    rows = [(row.said, row.shown, row.unit) for row in found.rows]
    return table((f"task {found.kind}{whole}", "value", "unit"), rows, numeric=1)


def _figures(axis: TrackedAxis) -> str:
    """Return the plots of one axis as HTML: target and error over time, and the open loop."""
    from rtsim.record.plotly_html import plot_html

    out = plot_html(time_figure(axis))
    if axis.found is not None and axis.found.trusted.any():
        out += plot_html(loop_figure(axis))
    return out


def time_figure(axis: TrackedAxis) -> go.Figure:
    """Return target, error and stick of one axis over time; oscillations are marked in red."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from rtsim.record.plotly_html import BLUE, GREY, ORANGE, RED

    thin = slice(None, None, max(1, len(axis.time) // _MOST_POINTS))
    x = axis.time[thin]
    figure = make_subplots(2, 1, shared_xaxes=True, vertical_spacing=0.06)
    shown = (("target", axis.target - axis.target[0], GREY, 1), ("error", axis.error, BLUE, 1),
             ("stick", axis.stick, ORANGE, 2))  # fmt: skip
    for name, values, colour, row in shown:
        line = {"color": colour, "width": 1.3}
        trace = go.Scatter(x=x, y=values[thin], mode="lines", line=line, name=name)
        figure.add_trace(trace, row, 1)
    for mark in axis.marks:
        figure.add_vrect(mark.first, mark.last, fillcolor=RED, opacity=0.12, line_width=0)
    figure.update_yaxes(title=f"{axis.name} [{axis.unit}]", row=1, col=1)
    figure.update_yaxes(title="stick", row=2, col=1)
    figure.update_xaxes(title="time [s]", row=2, col=1)
    marked = "; red: oscillation" if axis.marks else ""
    figure.update_layout(height=380, title=f"{axis.name}: target, error and stick{marked}")
    return figure


def loop_figure(axis: TrackedAxis) -> go.Figure:
    """Return magnitude and phase of the open loop, and the crossover model that fits it."""
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    from rtsim.piloting.identification import unwrapped
    from rtsim.record.plotly_html import BLUE, GREY, ORANGE, RED

    found = axis.found
    assert found is not None
    w, loop = found.frequencies[found.trusted], found.open_loop[found.trusted]
    figure = make_subplots(2, 1, shared_xaxes=True, vertical_spacing=0.06)

    def add(x: object, gain: object, phase: object, name: str, **style: object) -> None:
        for row, y in ((1, gain), (2, phase)):
            figure.add_trace(go.Scatter(x=x, y=y, name=name, showlegend=row == 1, **style), row, 1)

    def decibel(values: object) -> object:
        return 20.0 * np.log10(np.abs(values))

    add(w, decibel(loop), np.degrees(unwrapped(loop)), "measured", mode="markers",
        marker={"color": BLUE, "size": 8})  # fmt: skip
    if (model := found.crossover_model()) is not None:
        x = np.geomspace(w[0], w[-1], 200)
        add(x, decibel(model[0] / x), -90.0 - np.degrees(model[1] * x),
            f"crossover model: {model[0]:.3g} rad/s, {model[1]:.3g} s", mode="lines",
            line={"color": ORANGE, "width": 1.3})  # fmt: skip
    if (crossing := found.crossing()) is not None:
        figure.add_vline(crossing.frequency, line_color=RED, line_width=1, line_dash="dot")
    figure.add_hline(0.0, line_color=GREY, line_width=1, row=1, col=1)
    figure.add_hline(-180.0, line_color=GREY, line_width=1, row=2, col=1)
    figure.update_xaxes(type="log", exponentformat="power")
    figure.update_xaxes(title="frequency [rad/s]", row=2, col=1)
    figure.update_yaxes(title="gain [dB]", row=1, col=1)
    figure.update_yaxes(title="phase [deg]", range=[-400, -30], row=2, col=1)
    figure.update_layout(height=460, title=f"{axis.name}: open loop of pilot and vehicle")
    return figure

"""HTML page about a fit: parameters, and measured and fitted signals."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rtsim.core.errors import RecordingError
from rtsim.record.markup import table, text
from rtsim.record.plotly_html import BLUE, GREY, RED, go, make_subplots, plot_html
from rtsim.record.reports.page import page
from rtsim.studies.fitting import LEVEL, Fit

_HEAD = ("parameter", "value", "standard error", f"{LEVEL:.0%} interval", "start")


def write_fit_page(path: Path, title: str, fit: Fit) -> None:
    """Write the page about a fit to ``path``; raise ``RecordingError`` on failure."""
    rows = [one.cells for one in fit.parameters]
    warnings = "".join(f"<p><strong>Warning:</strong> {text(one)}</p>" for one in fit.warnings)
    sections = [("parameters", "Parameters", table(_HEAD, rows, numeric=1) + warnings)]
    for k, name in enumerate(fit.measured):
        sections.append((f"signal-{k}", text(name), plot_html(residual_figure(fit, name))))
    top = (
        f"<h1>{text(title)}</h1><p>{text(fit.source)}: {fit.time.size} rows up to "
        f"{fit.time[-1]:g} s; {fit.runs} runs; {text(fit.why)}</p>"
    )
    try:
        path.write_text(page(title, top, sections, generator="rtsim"), encoding="utf-8")
    except OSError as error:
        raise RecordingError(f"cannot write {path}: {error.strerror}") from error


def residual_figure(fit: Fit, name: str) -> go.Figure:
    """Return a figure of a signal: measured and fitted values, with residuals below."""
    noise = fit.noise[name]
    figure = make_subplots(2, 1, shared_xaxes=True, row_heights=[0.65, 0.35], vertical_spacing=0.08)
    measured = {"mode": "markers", "marker": {"size": 4, "color": GREY}}
    figure.add_trace(
        go.Scatter(x=fit.time, y=fit.measured[name], name="measured", **measured), 1, 1
    )
    line = {"color": BLUE, "width": 2}
    figure.add_trace(go.Scatter(x=fit.time, y=fit.fitted[name], name="fitted", line=line), 1, 1)
    residuals = fit.residuals(name)
    figure.add_trace(go.Scatter(x=fit.time, y=residuals, name="residual", **measured), 2, 1)
    for level in (-2 * noise, 2 * noise):
        figure.add_hline(level, line={"color": RED, "width": 1, "dash": "dot"}, row=2, col=1)
    most = float(np.nanmax(np.abs(residuals), initial=2 * noise)) * 1.1
    figure.update_yaxes(title="residual", range=[-most, most], row=2)
    figure.update_yaxes(title=name, row=1)
    figure.update_xaxes(title="time [s]", row=2)
    figure.update_layout(height=420)
    return figure

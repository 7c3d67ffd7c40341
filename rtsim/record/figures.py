"""The charts of a report about a recording, except those of its views."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record.charts import COMMAND, RESPONSE, Chart, Line, grid
from rtsim.record.event import Event
from rtsim.record.fault_marks import FAULT, FAULT_ENDED, Span
from rtsim.record.reading import Recording, TrackData
from rtsim.record.thinning import thin
from rtsim.timing.frames import NO_SAMPLE

MOST_LINES = 30
"""Greatest number of events, and of faults, that every chart marks."""
_FAULTS = (FAULT, FAULT_ENDED)
_EVENT_COLOR = 4
_BINS_PER_DECADE = 12
_FEWEST_BINS = 30
_ROW_PX, _FRAME_PX = 26, 64


def marked(
    events: Sequence[Event], faults: Sequence[Span]
) -> tuple[list[float], list[tuple[float, float]]]:
    """Return the times (s) of events and the spans (s) of faults that every chart marks.

    Kinds of events with few events come first; the others, and faults that are too many, are in
    the timeline only.
    """
    kinds: dict[str, set[float]] = {}
    for event in events:
        if event.kind not in _FAULTS:
            kinds.setdefault(event.kind, set()).add(event.tag.seconds)
    seconds: set[float] = set()
    for times in sorted(kinds.values(), key=len):
        seconds |= times if len(seconds | times) <= MOST_LINES else set()
    spans = [(began, ended) for _, began, ended, _ in faults]
    return sorted(seconds), spans if len(spans) <= MOST_LINES else []


def timeline(events: Sequence[Event], end_ns: int, faults: Sequence[Span] = ()) -> str:
    """Return a chart of all events over time, with a row for each kind and each fault."""
    events = [e for e in events if not (faults and e.kind in _FAULTS)]
    kinds = list(dict.fromkeys(e.kind for e in events))
    names = sorted({span.fault for span in faults})
    lines = [_bars(k, n, [s for s in faults if s.fault == n]) for k, n in enumerate(names)]
    for k, kind in enumerate(kinds, start=len(names)):
        x = np.unique([e.tag.seconds for e in events if e.kind == kind])
        lines.append(Line(kind, x, np.full(len(x), float(k)), _EVENT_COLOR, points=True))
    rows = [*(f"fault {name}" for name in names), *kinds]
    height = _FRAME_PX + _ROW_PX * len(rows)
    span = (0.0, end_ns / NS_PER_S)
    return Chart("Events", lines, rows=rows, marks=False, span=span, height=height).html()


def _bars(row: int, name: str, activations: Sequence[Span]) -> Line:
    """Return a row of the timeline: a line while a fault acted."""
    x = [t for span in activations for t in (span.began, span.ended, span.ended)]
    y = [v for _ in activations for v in (float(row), float(row), math.nan)]
    order = np.argsort(x, kind="stable")
    return Line(f"fault {name}", np.array(x)[order], np.array(y)[order], COMMAND, wide=True)


def latencies(recording: Recording) -> str:
    """Return charts of latency from initiation to arrival [ms], for each topic with a latency."""
    shown = [(t, *_delays(t)) for t in recording.tracks.values() if "arrival" in t.integers]
    shown = [row for row in shown if len(row[1]) and row[3].any()]
    charts = []
    for track, t, compute, total in shown:
        lines = [
            Line(name, *thin(t, values), color, points=True)
            for name, values, color in (
                ("to completed", compute, COMMAND),
                ("to arrival", total, RESPONSE),
            )
        ]
        title = f"{track.name.removeprefix('messages/')}: latency [ms]"
        charts.append(Chart(title, lines, x_label="initiated [s]"))
    return grid(charts)


def _delays(track: TrackData) -> tuple[Vector, Vector, Vector]:
    """Return initiation [s], compute and total latency [ms] of the messages that arrived."""
    initiated, completed, arrival = map(track.integer, ("initiated", "completed", "arrival"))
    there = arrival >= 0
    order = np.argsort(initiated[there], kind="stable")
    start = initiated[there][order]
    return (
        start / NS_PER_S,
        (completed[there][order] - start) / 1e6,
        (arrival[there][order] - start) / 1e6,
    )


def timing_histograms(samples: Mapping[str, tuple[Vector, Vector]], counted: str = "frames") -> str:
    """Return histograms on logarithmic axes; each of ``samples`` is (values [ns], counts)."""
    charts = []
    for name, (values, counts) in samples.items():
        edges, heights, below = log_histogram(values, counts)
        note = f"us (and {below} at or below 0)" if below else "us"
        y = np.r_[heights, heights[-1:]].astype(np.float64)
        y[y == 0.0] = np.nan  # a logarithmic axis has no 0
        line = Line(counted, edges / 1e3, y, stairs=True)
        charts.append(Chart(name, [line], note, counted, log=True, timed=False))
    return grid(charts)


def log_histogram(values: Vector, counts: Vector) -> tuple[Vector, Vector, int]:
    """Return the edges (k + 1,) and heights (k,) of a histogram, and the count of values <= 0."""
    above = values > 0
    below = int(counts[~above].sum())
    if not above.any():
        return np.array([1.0, 10.0]), np.zeros(1), below
    logs = np.log10(values[above])
    fine = max(_BINS_PER_DECADE, min(_FEWEST_BINS / max(np.ptp(logs), 1e-3), 100.0))
    bins = logs * fine
    edges = np.arange(math.floor(bins.min()), math.floor(bins.max()) + 2)
    heights, _ = np.histogram(bins, edges, weights=counts[above])
    return 10.0 ** (edges / fine), heights, below


def samples_of(
    recording: Recording, certificate: Mapping[str, Any]
) -> dict[str, tuple[Vector, Vector]]:
    """Return timing samples by name: from the timing track, or without one from the certificate."""
    track = recording.tracks.get("timing")
    out: dict[str, tuple[Vector, Vector]] = {}
    if track is not None and len(track):
        for name in track.integers:
            values = track.integer(name)
            values = values[values != NO_SAMPLE].astype(np.float64)
            out[name.replace("_", " ")] = (values, np.ones(len(values)))
        return out
    for name in ("lateness", "compute", "margin"):
        bins = certificate.get(name, {}).get("histogram") or []
        if bins:
            table = np.array(bins, np.float64).reshape(-1, 3)
            out[name] = ((table[:, 0] + table[:, 1]) / 2, table[:, 2])
    return out

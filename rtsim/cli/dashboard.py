"""The screen of ``rtsim top``, drawn from a series of samples; independent of terminal and run."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rtsim.core.tag import NS_PER_S
from rtsim.gateway.client import Glance, StateTable
from rtsim.timing.tally import CLASSES, quantile_us

_BARS = "▁▂▃▄▅▆▇█"
_KEPT = 240
"""Number of past values of each signal that are kept for its sparkline."""
_RATE_OVER_NS = NS_PER_S
KEYS = (
    ("space", "pause, resume"), ("s", "step"), ("+ -", "rate"), ("1", "real time"),
    ("m", "mark"), ("c", "checkpoint"), ("b", "back to the last checkpoint"), ("j k", "scroll"),
    ("q", "end the run"), ("x", "close this screen"),
)  # fmt: skip
_SCALE = "1us       1ms       1s".ljust(CLASSES)
"""Scale that is printed above each histogram: class 10 ends at 1.024 ms, class 20 at 1.05 s."""


class Dashboard:
    """A text screen that shows the figures of a run in progress.

    ``title`` is its first line; ``units`` maps the names of the shown signals, in their order, to
    their units.
    """

    def __init__(self, title: str, units: Mapping[str, str]) -> None:
        self.title = title
        self.scrolled = 0
        """Number of signals above the first visible one."""
        self._units = dict(units)
        self._values: dict[str, deque[float]] = {n: deque(maxlen=_KEPT) for n in units}
        self._passed: deque[tuple[int, int]] = deque()
        """Wall-clock and simulated time [ns] of each sample of the last second."""
        self._glance: Glance | None = None

    def look(self, glance: Glance) -> None:
        """Add a sample."""
        state = glance.state
        if self._glance is not None and self._glance.state.leg != state.leg:
            self._passed.clear()
        self._glance = glance
        self._passed.append((state.wall_ns, state.ns))
        while state.wall_ns - self._passed[0][0] > _RATE_OVER_NS and len(self._passed) > 2:
            self._passed.popleft()
        for name, value in glance.values.items():
            self._values[name].append(value)

    @property
    def state(self) -> StateTable | None:
        """State of the run in the last sample; ``None`` before the first one."""
        return None if self._glance is None else self._glance.state

    @property
    def rate(self) -> float:
        """Simulated seconds per second of wall time, measured over the last second."""
        if len(self._passed) < 2:
            return math.nan
        (wall, ns), (wall_now, ns_now) = self._passed[0], self._passed[-1]
        return (ns_now - ns) / (wall_now - wall) if wall_now > wall else math.nan

    def scroll(self, rows: int) -> None:
        """Scroll down by ``rows`` signals, or up if ``rows`` is negative."""
        self.scrolled = min(max(0, self.scrolled + rows), max(0, len(self._units) - 1))

    def to_json(self) -> dict[str, Any]:
        """Return the last sample as plain data."""
        assert self._glance is not None
        glance = self._glance
        return {
            **asdict(glance.state),
            "measured_rate": self.rate,
            "latency": {link: _figures(counts) for link, counts in glance.latency.items()},
            "signals": dict(glance.values),
        }

    def frame(self, width: int, height: int | None = None, said: str = "") -> RenderableType:
        """Return the screen, ``width`` columns wide and at most ``height`` lines high.

        ``said`` is the answer to the last command.  Without ``height`` all signals are shown.
        """
        if self._glance is None:
            return Text("waiting for the run")
        head = [_cut(line, width) for line in self._head(self._glance.state)]
        links = self._links(self._glance.latency, None if height is None else height // 3)
        foot = [] if height is None else [_cut(Text(said, style="bold"), width), _keys(width)]
        parts: list[RenderableType] = [*head, Text(""), links, Text("")]
        rows = None
        if height is not None:
            feet = 0 if not foot else 1 + _lines(_keys(width))
            rows = height - len(head) - 3 - links.row_count - feet - 1
        parts.append(self._signals(width, rows))
        return Group(*parts, *foot)

    def _head(self, state: StateTable) -> list[Text]:
        if state.standing:
            pace = Text(" paused ", style="black on yellow")
        else:
            asked = f"rate {state.rate:g}" if state.rate else "as fast as possible"
            pace = Text(f" {asked} ", style="black on green")
        leg = f"   segment {state.leg}" if state.leg > 1 else ""
        measured = "" if math.isnan(self.rate) else f"   x{self.rate:.4g} measured"
        first = Text.assemble((self.title, "bold"), f"   {state.seconds:.3f} s{leg}   ", pace,
                              "" if state.standing else measured)  # fmt: skip
        margin = f"slack {state.margin_ns / 1e6:.3f} ms   " if state.rate else ""
        wrong = state.overruns or state.late or state.missed
        second = Text(
            f"{margin}overruns {state.overruns} (compute {state.overruns_compute}, "
            f"wake {state.overruns_wake})   late {state.late}   missed {state.missed}   "
            f"{state.frames} frames",
            style="yellow" if wrong else "",
        )
        return [first, second]

    def _links(self, latency: Mapping[str, list[int]], rows: int | None) -> Table:
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("latency by link", no_wrap=True)
        for name in ("messages", "median", "p99"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column(_SCALE, no_wrap=True)
        for link, counts in list(latency.items())[:rows]:
            found = _figures(counts)
            times = [_duration(found[key]) for key in ("median_us", "p99_us")]
            table.add_row(link, str(found["messages"]), *times, histogram(counts))
        return table

    def _signals(self, width: int, rows: int | None) -> Table:
        table = Table(box=None, pad_edge=False, show_header=False)
        names = list(self._units)
        if rows is not None:
            last = max(0, len(names) - max(rows, 1))
            self.scrolled = min(self.scrolled, last)
            names = names[self.scrolled : self.scrolled + max(rows, 1)]
        widest = max((len(n) for n in names), default=0)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True, width=13)
        table.add_column(no_wrap=True, style="dim", width=10)
        table.add_column(no_wrap=True)
        room = max(4, min(_KEPT, width - widest - 13 - 10 - 6))
        for name in names:
            values = list(self._values[name])
            shown = f"{values[-1]:.6g}" if values else ""
            table.add_row(name, shown, self._units[name], sparkline(values[-room:]))
        return table


def _figures(counts: Sequence[int]) -> dict[str, Any]:
    listed = list(counts)
    return {
        "messages": sum(listed),
        "median_us": quantile_us(listed, 0.5),
        "p99_us": quantile_us(listed, 0.99),
        "counts": listed,
    }


def _duration(us: int | None) -> str:
    """Return the upper end of a histogram class as text."""
    if us is None:
        return "-"
    for unit, size in (("s", 1_000_000), ("ms", 1000)):
        if us >= size:
            return f"< {us / size:.3g} {unit}"
    return f"< {us} us"


def histogram(counts: Sequence[int]) -> str:
    """Return one bar character for each class; every count above 0 has a visible bar."""
    most = max(counts, default=0)
    return "".join(
        " " if not count else _BARS[max(0, math.ceil(count * len(_BARS) / most) - 1)]
        for count in counts
    )


def sparkline(values: Sequence[float]) -> str:
    """Return ``values`` as bars scaled from least to greatest; NaN and infinity give a gap."""
    finite = [v for v in values if math.isfinite(v)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    span = high - low
    if not math.isfinite(span):  # the difference of two large doubles overflows
        return "".join(_BARS[-1] if v > 0 else _BARS[0] for v in values)
    step = span / len(_BARS) or 1.0
    return "".join(
        _BARS[min(int((v - low) / step), len(_BARS) - 1)] if math.isfinite(v) else " "
        for v in values
    )


def _keys(width: int) -> Text:
    lines, line = [], ""
    for key, does in KEYS:
        more = f"{key} {does}"
        if line and len(line) + 3 + len(more) > width:
            lines.append(line)
            line = ""
        line = f"{line}   {more}" if line else more
    return Text("\n".join([*lines, line]), style="dim")


def _lines(text: Text) -> int:
    return text.plain.count("\n") + 1


def _cut(text: Text, width: int) -> Text:
    text.truncate(width)
    return text

"""A web page that shows a run or a recording in all connected browsers.

All browsers show the same page, with the same selected signals. viser sends each browser the latest
state of the page, so that a slow browser delays no other browser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from threading import Event
from typing import Any

import numpy as np
import viser

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.publishing import StateTable
from rtsim.gateway.web.controls import (
    MOST_TOPICS,
    Commands,
    Parameters,
    RunControls,
    messages_html,
    note_html,
    requirements_html,
    state_html,
    values_html,
)
from rtsim.gateway.web.guard import Guard
from rtsim.gateway.web.scene import PageScene
from rtsim.gateway.web.schedule import NARROW, WIDE, Schedules
from rtsim.gateway.web.source import MOST_NAMES, MOST_POINTS, About, Look, Past, Source
from rtsim.record.views import Published, View, with_unit

# Curves over time, and curves of one signal over another.

MOST_CHARTS = 8
"""Limit of the charts on a page. Further charts are on further pages."""
MOST_CURVES = 6
"""Limit of the curves of one chart. Further elements of an array are not drawn."""
CHART_HEIGHT, TALL = 190, 270
_WIDTH = 400
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
_BAND = "rgba(214, 39, 40, 0.12)"
_SQUARE = 320


class Chart:
    """One chart of the page; ``show`` draws the past values of the signals ``names``."""

    def __init__(
        self, gui: viser.GuiApi, view: View, names: Sequence[str], about: About, height: int
    ) -> None:
        self.names = (*names, *([] if view.over is None else [view.over]))
        self._view, self._drawn, self._about = view, tuple(names), about
        self._height = height
        self._range: tuple[float, float] | None = None
        self._plot: Any
        if view.over is None:
            self._plot = self._curves(gui)
        else:
            self._plot = gui.add_html(self._svg(np.zeros(0), {}))

    def show(self, past: Past) -> None:
        if self._view.over is not None:
            self._plot.content = self._svg(
                past.values.get(self._view.over, np.zeros(0)), past.values
            )
        elif len(past.seconds):
            data = self._data(past)
            self._fix_range(data[1:])
            self._plot.data = data

    def remove(self) -> None:
        self._plot.remove()

    # -- over time

    def _curves(self, gui: viser.GuiApi) -> Any:
        series: list[Any] = [{"label": "t [s]"}]
        for k, name in enumerate(self._drawn):
            label = with_unit(name, self._about.signals.get(name, ""))
            series.append({"label": label, "stroke": _COLOURS[k], "width": 1.5})
        bands = None
        if self._view.band is not None:
            edge = {"stroke": _BAND, "width": 1, "label": f"± {self._view.band:g}"}
            series += [edge, edge]
            bands = ({"series": (len(series) - 2, len(series) - 1), "fill": _BAND},)
        for k, one in enumerate(self._view.published, start=len(self._drawn)):
            colour = _COLOURS[k % len(_COLOURS)]
            points = {"show": True, "size": 5, "fill": colour, "stroke": colour}
            series.append({"label": one.name, "stroke": colour, "width": 0, "points": points})
        empty = np.zeros(1)
        return gui.add_uplot(
            data=tuple(empty for _ in series),
            series=tuple(series),
            bands=bands,
            title=self._view.title,
            scales={"x": {"time": False}, "y": {"auto": True}},
            axes=({}, {"size": 64}),
            legend={"show": len(self._drawn) + len(self._view.published) > 1},
            height=self._height,
        )

    def _data(self, past: Past) -> tuple[Vector, ...]:
        seconds, points = _published(self._view.published, past.seconds)
        curves = [_with_gaps(past.values[name]) for name in self._drawn]
        if points:
            curves = [np.interp(seconds, past.seconds, curve) for curve in curves]
        if self._view.band is not None:
            middle = curves[-1] if len(curves) > 1 else np.zeros(len(seconds))
            curves += [middle + self._view.band, middle - self._view.band]
        return (seconds, *curves, *points)

    def _fix_range(self, curves: Sequence[Vector]) -> None:
        known = np.concatenate([c[np.isfinite(c)] for c in curves])
        wanted: tuple[float, float] | None = None
        if len(known) and len(known) < sum(map(len, curves)):
            low, high = float(known.min()), float(known.max())
            room = 0.1 * (high - low) or 0.1 * abs(high) or 1.0
            kept = self._range
            if kept is not None and kept[0] <= low and high <= kept[1]:
                return
            wanted = low - room, high + room
        if wanted != self._range:
            self._range = wanted
            y = {"auto": True} if wanted is None else {"range": wanted}
            self._plot.scales = {"x": {"time": False}, "y": y}

    # -- over another signal

    def _svg(self, across: Vector, values: Mapping[str, Vector]) -> str:
        over = str(self._view.over)
        curves = [_with_gaps(values[name]) for name in self._drawn if name in values]
        x, lines = _with_gaps(across), []
        known = [np.isfinite(x) & np.isfinite(y) for y in curves]
        if any(ok.any() for ok in known):
            whole = np.concatenate([x[ok] for ok in known])
            high = np.concatenate([y[ok] for y, ok in zip(curves, known, strict=True)])
            for k, (y, ok) in enumerate(zip(curves, known, strict=True)):
                px, py = _pixels(x[ok], whole), _SQUARE - _pixels(y[ok], high)
                points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(px, py, strict=True))
                lines.append(
                    f'<polyline points="{points}" fill="none" stroke="{_COLOURS[k]}" '
                    'stroke-width="1.5"/>'
                )
            x_range = f"{whole.min():.4g} to {whole.max():.4g}"
            ranges = f"{over}: {x_range}; vertical: {high.min():.4g} to {high.max():.4g}"
        else:
            ranges = over
        return (
            f"<div><b>{escape(self._view.title)}</b>"
            f'<svg viewBox="0 0 {_SQUARE} {_SQUARE}" style="width:100%;max-width:{_WIDTH}px">'
            f"{''.join(lines)}</svg><div>{escape(ranges)}</div></div>"
        )


class Charts:
    """The charts of a page, and the selection of more signals."""

    def __init__(
        self, gui: viser.GuiApi, about: About, views: Sequence[View], height: int = CHART_HEIGHT
    ) -> None:
        self._gui, self._about, self._views = gui, about, list(views)
        self._height = height
        self._charts: list[Chart] = []
        self._page = 0
        self.span_s = 30.0

    @property
    def pages(self) -> int:
        return max(1, -(-len(self._views) // MOST_CHARTS))

    @property
    def unknown(self) -> list[str]:
        """Titles of views without values, because their signals are not sent."""
        return [view.title for view in self._views if not self._expanded(view)]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for chart in self._charts for name in chart.names))

    def open(self, folder: Any, page: int = 0) -> None:
        self._page = min(max(page, 0), self.pages - 1)
        for chart in self._charts:
            chart.remove()
        self._charts = []
        with folder:
            for view in self._views[self._page * MOST_CHARTS :][:MOST_CHARTS]:
                if names := self._expanded(view):
                    chart = Chart(self._gui, view, names, self._about, self._height)
                    self._charts.append(chart)

    def add(self, name: str) -> bool:
        """Show the signal ``name`` in the first chart; return False if unknown."""
        if name not in self._about.signals:
            return False
        view = View(with_unit(name, self._about.signals[name]), (name,))
        if any(view.signals == one.signals for one in self._views):
            self._views = [one for one in self._views if one.signals != view.signals]
        self._views.insert(0, view)
        return True

    def show(self, past: Past) -> None:
        for chart in self._charts:
            chart.show(past)

    def _expanded(self, view: View) -> list[str]:
        out: list[str] = []
        for name in view.signals:
            if name in self._about.signals:
                out.append(name)
            else:
                pattern = re.compile(re.escape(name) + r"(_\d+)+")
                out += [known for known in self._about.signals if pattern.fullmatch(known)]
        if view.over is not None and view.over not in self._about.signals:
            return []
        return out[:MOST_CURVES]


def views_shown(about: About) -> list[View]:
    """Return the declared views, or one view for each of the first signals."""
    if about.views:
        return [View.from_dict(one) for one in about.views]
    names = [n for n, kind in about.kinds.items() if kind != "parameter"]
    return [View(with_unit(n, about.signals[n]), (n,)) for n in names[: 2 * MOST_CHARTS]]


def _published(published: Sequence[Published], seconds: Vector) -> tuple[Vector, list[Vector]]:
    inside = [np.array(one.times) for one in published]
    inside = [(t >= seconds[0]) & (t <= seconds[-1]) for t in inside]
    found = [
        (np.array(one.times)[here][:MOST_POINTS], np.array(one.values)[here][:MOST_POINTS])
        for one, here in zip(published, inside, strict=True)
    ]
    whole = np.unique(np.concatenate([seconds, *(times for times, _ in found)]))
    points = [np.full(len(whole), np.nan) for _ in found]
    for point, (times, values) in zip(points, found, strict=True):
        point[np.searchsorted(whole, times)] = values
    return (whole if points else seconds), points


def _with_gaps(values: Vector) -> Vector:
    out: Vector = np.where(np.isfinite(values), values, np.nan)
    return out


def _pixels(values: Vector, whole: Vector) -> Vector:
    low, high = float(whole.min()), float(whole.max())
    share = (values - low) / (high - low) if high > low else np.full(len(values), 0.5)
    out: Vector = _SQUARE * (0.05 + 0.9 * share)
    return out


LOOK_S = 0.05
_CHARTS_EVERY = 4
"""Charts and texts are updated only every fourth time that the source is read."""
_TRACKS_EVERY = 10
REST_S = 2.0
"""Time without updates for charts while browsers draw them first, s."""
_MOST_FOUND, _MOST_NOTIFIED = 30, 240
_SPANS = {"5 s": 5.0, "30 s": 30.0, "2 min": 120.0, "10 min": 600.0}
_VIEWS_WIDTH, _RUN_WIDTH = 430.0, 330.0
_WIDE = 900.0


class Page:
    """A page that shows ``source`` in browsers; with ``control``, it has buttons for commands.

    ``guard.opened`` counts the browsers that have opened the page.
    """

    def __init__(
        self, server: viser.ViserServer, source: Source, control: bool, guard: Guard | None = None
    ) -> None:
        self._server, self._source, self._about = server, source, source.about
        self._commands = Commands()
        self._asked: dict[str, Callable[[], None]] = {}
        live = source.about.ends is None
        self._said = "read-only; start rtsim with --control to change this" * (live and not control)
        self._rate_from: tuple[int, int] | None = None
        self._last: StateTable | None = None
        self._looks = 0
        self._guard, self._opened, self._rested_ns = guard, 0, 0
        gui = server.gui
        gui.configure_theme(show_logo=False, show_share_button=False, dark_mode=False)
        gui.set_panel_label("rtsim")
        self.scene = PageScene(server, self._about)
        height = CHART_HEIGHT if self.scene.placed else TALL
        self.charts = Charts(gui, self._about, views_shown(self._about), height)
        playable = control or self._about.ends is not None
        self._build_run(gui, playable, control)
        self._build_views(gui)

    # -- building

    def _build_run(self, gui: viser.GuiApi, playable: bool, control: bool) -> None:
        gui.main_panel.dock_right()
        gui.main_panel.set_width(_RUN_WIDTH)
        self._state: Any = gui.add_html("")
        self._required: Any = gui.add_html("") if self._about.requirements else None
        self._controls = RunControls(gui, self._about, self._commands) if playable else None
        if self.scene.placed:
            follow: Any = gui.add_dropdown(
                "Camera follows", self.scene.choices, initial_value=self.scene.followed
            )
            follow.on_update(lambda event: self._follow(str(event.target.value)))
        if self.scene.wrong:
            gui.add_html(note_html(self.scene.wrong))
        self._parameters = Parameters(
            gui, self._about.parameters, self._commands if control else None, self._ask
        )
        if self._about.parameters:
            folder = gui.add_folder("Parameters", expand_by_default=False)
            with folder:
                sought: Any = gui.add_text("Filter", "")
            self._parameters.open(folder)
            sought.on_update(
                lambda event: self._ask(
                    "parameters", lambda: self._parameters.open(folder, str(event.target.value))
                )
            )

    def _build_views(self, gui: viser.GuiApi) -> None:
        self._panel = gui.add_panel()
        tab = self._panel.add_tab("Views")
        with tab:
            span: Any = gui.add_dropdown("Time span", tuple(_SPANS), initial_value="30 s")
            span.on_update(lambda event: self._span(str(event.target.value)))
            self._page: Any = gui.add_dropdown("Page", self._pages(), initial_value="1")
            self._page.on_update(lambda event: self._turn(str(event.target.value)))
            if unknown := self.charts.unknown:
                said = ", ".join(unknown[:_MOST_FOUND])
                gui.add_html(note_html(f"not drawn, because the run does not send them: {said}"))
        self._tab: Any = tab
        self.charts.open(tab)
        with self._panel.add_tab("Signals"):
            self._sought: Any = gui.add_text("Filter", "")
            self._found: Any = gui.add_dropdown("Signal", ("",), initial_value="")
            add: Any = gui.add_button("Plot this signal")
            add.on_click(lambda _: self._ask("add", self._add))
            self._values: Any = gui.add_html("")
        self._schedules: Schedules | None = None
        if self._about.processors:
            with self._panel.add_tab("Schedule"):
                width = NARROW if self.scene.placed else WIDE
                self._schedules = Schedules(gui, self._about.processors, width)
        with self._panel.add_tab("Messages"):
            self._messages: Any = gui.add_html("")
        self._sought.on_update(lambda _: self._ask("search", self._search))
        self._listed: list[str] = []
        self._search()
        self._panel.dock_left()
        self._panel.set_width(_VIEWS_WIDTH if self.scene.placed else _WIDE)

    def _pages(self) -> tuple[str, ...]:
        return tuple(str(k + 1) for k in range(self.charts.pages))

    # -- selections of users; viser calls these methods in its own threads

    def _ask(self, what: str, then: Callable[[], None]) -> None:
        self._asked[what] = then

    def _follow(self, name: str) -> None:
        if name in self.scene.choices:
            self.scene.followed = name

    def _span(self, text: str) -> None:
        self.charts.span_s = _SPANS.get(text, self.charts.span_s)

    def _turn(self, text: str) -> None:
        if text.isdecimal():
            self._ask("page", lambda: self._draw(int(text) - 1))

    # -- in the thread of the page

    def _search(self) -> None:
        part = str(self._sought.value).lower()[:200]
        known = self._about.signals
        found = [name for name in known if part in name.lower()]
        self._listed = found[:_MOST_FOUND]
        self._found.options = tuple(self._listed) or ("",)

    def _draw(self, page: int) -> None:
        with self._server.atomic():
            self.charts.open(self._tab, page)
            self.charts.show(self._source.past(self.charts.names, self.charts.span_s))
        self._rest()

    def _rest(self) -> None:
        self._rested_ns = self._rested_ns or stopwatch()

    @property
    def _rests(self) -> bool:
        if self._rested_ns and stopwatch() - self._rested_ns > REST_S * NS_PER_S:
            self._rested_ns = 0
        return self._rested_ns > 0

    def _add(self) -> None:
        if self.charts.add(str(self._found.value)):
            self._page.options = self._pages()
            self._draw(0)

    def _names(self) -> list[str]:
        topics = list(self._about.topics.items())[:MOST_TOPICS]
        carried = [f"{topic}.{column}" for topic, columns in topics for column in columns[:4]]
        wanted = (*self.scene.names, *self.charts.names, *self._listed, *carried,
                  *self._parameters.names)  # fmt: skip
        known = self._about.signals
        return [n for n in dict.fromkeys(wanted) if n in known][:MOST_NAMES]

    def update(self) -> None:
        """Send the users' commands, and show the present state.

        Raises :class:`RtsimError` at the end of the run.
        """
        if self._guard is not None and self._guard.opened != self._opened:
            self._opened = self._guard.opened
            self._rest()
        for then in [self._asked.pop(key) for key in list(self._asked)]:
            then()
        for kind, arguments in self._commands.take():
            self._tell(kind, arguments)
        look = self._source.look(self._names())
        if look is None:
            self.say("the run does not answer: it compiles, or a step of it takes long")
            return
        self.scene.show(look.state.ns, look.values)
        if self._looks % _CHARTS_EVERY == 0:
            self._show_slowly(look)
        if self._looks % _TRACKS_EVERY == 0:
            self.scene.show_tracks()
        self._looks += 1

    def _tell(self, kind: str, arguments: dict[str, Any]) -> None:
        words = " ".join([kind, *(str(v) for v in arguments.values())])
        try:
            self._said = f"{words}: {self._source.tell(kind, **arguments)}"
        except RtsimError as error:
            self._said = f"{words} was refused: {error}"
            if kind == "set":
                self._parameters.refused(str(arguments["target"]))

    def _show_slowly(self, look: Look) -> None:
        state = self._last = look.state
        past = self._source.past(self.charts.names, self.charts.span_s)
        with self._server.atomic():
            if not self._rests:
                self.charts.show(past)
            said = self._parameters.wrong or self._said
            self._state.content = state_html(
                state, self._measured(state.ns), self._about.title, said
            )
            if self._required is not None:
                self._required.content = requirements_html(self._about, look)
            if self._schedules is not None:
                self._schedules.show(self._source.schedules(), state.ns)
            self._messages.content = messages_html(self._about, look)
            listed = {n: look.values[n] for n in self._listed if n in look.values}
            self._values.content = values_html(self._about, listed)
            if self._controls is not None:
                self._controls.show(state)
            self._parameters.show(look.values)

    def _measured(self, ns: int) -> float | None:
        before, self._rate_from = self._rate_from, (ns, stopwatch())
        if before is None or self._rate_from[1] <= before[1] or ns < before[0]:
            return None
        return (ns - before[0]) / (self._rate_from[1] - before[1])

    def say(self, text: str) -> None:
        if self._last is None:
            self._state.content = note_html(text)
        else:
            self._state.content = state_html(self._last, None, self._about.title, self._said, text)

    def end(self, why: str) -> None:
        said = f"{why}. The last state is shown."
        self.say(said)
        for client in self._server.get_clients().values():
            client.add_notification(self._about.title, said[:_MOST_NOTIFIED], color="orange")

    def serve(self, ended: Event) -> str:
        """Update the page until its end; return the reason of the end."""
        due = stopwatch()
        while not ended.is_set():
            try:
                self.update()
            except RtsimError as error:
                return str(error)
            now = stopwatch()
            due = max(due + round(LOOK_S * NS_PER_S), now)
            ended.wait(max(0.0, (due - now) / NS_PER_S))
        return ""

"""``rtsim top``: show a run in progress on one screen, with keys for its commands."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rtsim.cli.common import json_option, reports_errors, show_json, sigterm_interrupts
from rtsim.cli.options import option
from rtsim.cli.terminal import is_terminal, keyboard
from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.client import NEXT_TAG, ControlError, Glance, Run, StateTable, connected
from rtsim.record.views import View
from rtsim.timing.frames import CLASSES, quantile_us

_BARS = "▁▂▃▄▅▆▇█"
_KEPT = 240
"""Number of past values of each signal that are stored for its sparkline."""
_RATE_OVER_NS = NS_PER_S
KEYS = (
    ("space", "pause, resume"), ("s", "step"), ("+ -", "rate"), ("1", "real time"),
    ("m", "mark"), ("c", "checkpoint"), ("b", "back to the last checkpoint"), ("j k", "scroll"),
    ("q", "end the run"), ("x", "close this screen"),
)  # fmt: skip
_SCALE = "1us       1ms       1s".ljust(CLASSES)
"""Scale that is printed above each histogram. Class 10 ends at 1.024 ms, class 20 at 1.05 s."""


class Dashboard:
    """Text screen that shows the state and signals of a run in progress.

    ``title`` is the first line. ``units`` contains the units of the shown signals by name, in the
    order of the screen.
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
        return None if self._glance is None else self._glance.state

    @property
    def rate(self) -> float:
        """Ratio of simulated time to wall-clock time during the last second."""
        if len(self._passed) < 2:
            return math.nan
        (wall, ns), (wall_now, ns_now) = self._passed[0], self._passed[-1]
        return (ns_now - ns) / (wall_now - wall) if wall_now > wall else math.nan

    def scroll(self, rows: int) -> None:
        """Scroll down by ``rows`` lines, or up if ``rows`` is negative."""
        self.scrolled = min(max(0, self.scrolled + rows), max(0, len(self._units) - 1))

    def to_json(self) -> dict[str, Any]:
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

        ``said`` is the answer to the user's last command. If ``height`` is ``None``, the text
        contains all signals without the answer and the keys.
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
    if us is None:
        return "-"
    for unit, size in (("s", 1_000_000), ("ms", 1000)):
        if us >= size:
            return f"< {us / size:.3g} {unit}"
    return f"< {us} us"


def histogram(counts: Sequence[int]) -> str:
    """Return counts as a bar chart of one line, with a visible bar for each count above 0."""
    most = max(counts, default=0)
    return "".join(
        " " if not count else _BARS[max(0, math.ceil(count * len(_BARS) / most) - 1)]
        for count in counts
    )


def sparkline(values: Sequence[float]) -> str:
    """Return ``values`` as a line of bars, with gaps for NaN and infinity."""
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


_MOST_SIGNALS = 200
_LOOKS = 12
"""Number of samples for ``--once``, enough to measure the rate and to begin the sparklines."""
_FASTEST, _SLOWEST = 1024.0, 1 / 64
_LEFT = "closed this screen; the run continues"


@click.command()
@click.argument("which", metavar="[RUN]", default="")
@click.option(
    "-s",
    "--signal",
    "wanted",
    multiple=True,
    metavar="NAME",
    help="Show only these signals: f16.alpha, 'f16.*'; repeatable.  [default: all]",
)
@click.option("--rate", default=8.0, show_default=True, help="Screen updates per second.")
@option("--keys")
@click.option("--once", is_flag=True, help="Print one screen and exit; needs no terminal.")
@json_option
@reports_errors
def top(
    which: str, wanted: tuple[str, ...], rate: float, keys: Path | None, once: bool, as_json: bool
) -> None:
    """Watch a run in progress: speed, slack time, overruns, latencies and signals.

    RUN is a process number, the name of a scenario, or tcp://HOST:PORT; it can be omitted if only
    one run is in progress.

    \b
    Examples:
      rtsim top
      rtsim top f16 -s 'autopilot.*'
      rtsim top --once --json
    """
    if not 0.1 <= rate <= 20:
        raise ScenarioError(
            f"--rate {rate:g} is out of range; give 0.1 to 20 (screen updates per second)"
        )
    screen = not (once or as_json)
    if screen and not is_terminal():
        raise ScenarioError(
            "rtsim top needs a terminal; without a terminal, type: rtsim top --once"
        )
    with connected(which, keys) as run:
        names = _chosen(run, wanted)
        shown = Dashboard(f"{run.scenario} ({run.pid})", {n: run.signals[n] for n in names})
        if screen:
            with sigterm_interrupts():
                click.echo(Screen(run, shown, names, 1 / rate).show())
            return
        for _ in range(_LOOKS):
            shown.look(run.glance(*names))
        if as_json:
            show_json({"scenario": run.scenario, "pid": run.pid, **shown.to_json()})
        else:
            out = Console(highlight=False)
            out.print(shown.frame(out.width))


def _chosen(run: Run, wanted: tuple[str, ...]) -> list[str]:
    known = list(run.signals)
    names = []
    for pattern in wanted:
        found = [n for n in known if fnmatchcase(n, pattern)]
        if not found:
            raise UnknownName("signal", pattern, known, "this run")
        names += [n for n in found if n not in names]
    return (names or in_views(known, run.about.get("views")))[:_MOST_SIGNALS]


def in_views(known: Sequence[str], views: object) -> list[str]:
    """Return the names in ``known``, first those that the views show.

    For an array in a view, the result contains the elements, such as ``f16.position_0``. Invalid
    views are omitted.
    """
    found: dict[str, None] = {}
    for plain in views if isinstance(views, list) else ():
        with suppress(ScenarioError):
            for name in View.from_dict(plain).names():
                elements = re.compile(rf"{re.escape(name)}(_[0-9]+)*\Z")
                found.update(dict.fromkeys(n for n in known if elements.match(n)))
    return list(dict.fromkeys([*found, *known]))


class Screen:
    """Interactive text screen of a run in progress."""

    def __init__(self, run: Run, shown: Dashboard, names: list[str], every_s: float) -> None:
        self._run, self._shown, self._names, self._every_s = run, shown, names, every_s
        self._said = ""
        self._asking: Callable[[str], None] | None = None
        """Function that receives the typed text, or ``None`` while keys are commands."""
        self._text = ""
        self._ended = ""
        self._keys: dict[str, Callable[[], object]] = {
            " ": self._toggle,
            "s": lambda: self._tell("step"),
            "+": lambda: self._rate(2.0),
            "=": lambda: self._rate(2.0),
            "-": lambda: self._rate(0.5),
            "1": lambda: self._tell("rate", rate=1.0),
            "m": lambda: self._ask("mark, then Enter: ", self._mark),
            "c": lambda: self._tell("checkpoint"),
            "b": lambda: self._tell("restore"),
            "q": lambda: self._ask("end the run? y, then Enter: ", self._quit),
            "x": self._leave, "\x03": self._leave, "\x04": self._leave,
            "j": lambda: shown.scroll(1), "\x1b[B": lambda: shown.scroll(1),
            "k": lambda: shown.scroll(-1), "\x1b[A": lambda: shown.scroll(-1),
            "\x1b[6~": lambda: shown.scroll(10), "\x1b[5~": lambda: shown.scroll(-10),
        }  # fmt: skip

    def show(self) -> str:
        """Show the screen until the user leaves it or the run ends; return the reason."""
        console = Console(highlight=False)
        try:
            with (
                keyboard() as read,
                Live(console=console, screen=True, auto_refresh=False) as live,
            ):
                while not self._ended:
                    self._look()
                    width, height = console.size
                    live.update(self._shown.frame(width, height, self._said), refresh=True)
                    for key in read(self._every_s):
                        self._pressed(key)
        except KeyboardInterrupt:
            return _LEFT
        return self._ended

    def _look(self) -> None:
        try:
            self._shown.look(self._run.glance(*self._names))
        except ControlError as error:
            self._ended = str(error)

    def _pressed(self, key: str) -> None:
        if self._asking is not None and key not in ("\x03", "\x04"):
            self._typed(key)
        elif key in self._keys:
            self._keys[key]()

    def _typed(self, key: str) -> None:
        asking, text = self._asking, self._text
        assert asking is not None
        if key == "\x1b":
            self._asking, self._said = None, ""
        elif key in ("\r", "\n"):
            self._asking, self._said = None, ""
            asking(text)
        elif key in ("\x7f", "\b") and text:
            self._text, self._said = text[:-1], self._said[:-1]
        elif key.isprintable():
            self._text, self._said = text + key, self._said + key

    # Actions of the keys

    def _ask(self, said: str, then: Callable[[str], None]) -> None:
        self._said, self._text, self._asking = said, "", then

    def _tell(self, kind: str, **arguments: object) -> None:
        try:
            ns = self._run.tell(kind, **arguments)
        except RtsimError as error:
            self._said = str(error)
            return
        what = " ".join([kind, *(str(v) for v in arguments.values())])
        at = "at the next tag" if ns == NEXT_TAG else f"at {ns / NS_PER_S:.6f} s"
        self._said = f"{what}: {at}"

    def _toggle(self) -> None:
        state = self._shown.state
        self._tell("resume" if state is not None and state.standing else "pause")

    def _rate(self, factor: float) -> None:
        state = self._shown.state
        if state is None:
            return
        if not state.rate:
            self._said = "the run is as fast as possible; press 1 for real time"
            return
        self._tell("rate", rate=min(max(state.rate * factor, _SLOWEST), _FASTEST))

    def _mark(self, text: str) -> None:
        self._tell("mark", text=text or "mark")

    def _quit(self, text: str) -> None:
        if text.strip().lower() in ("y", "yes"):
            self._tell("quit")

    def _leave(self) -> None:
        self._ended = _LEFT

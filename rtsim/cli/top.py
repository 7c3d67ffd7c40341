"""``rtsim top``: show a run in progress on one screen, with keys for its commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live

from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.dashboard import Dashboard
from rtsim.cli.interrupts import sigterm_interrupts
from rtsim.cli.keyboard import is_terminal, keyboard
from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.client import NEXT_TAG, ControlError, Run, connected
from rtsim.record.views import View

_MOST_SIGNALS = 200
_LOOKS = 12
"""Samples for ``--once``: enough to measure the rate and to begin the sparklines."""
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
@click.option(
    "--keys",
    type=click.Path(path_type=Path),
    help="Client key file, needed if RUN is tcp://HOST:PORT: the FILE.client that 'rtsim keys' "
    "wrote.",
)
@click.option("--once", is_flag=True, help="Print one screen and exit; needs no terminal.")
@json_option
@reports_errors
def top(
    which: str, wanted: tuple[str, ...], rate: float, keys: Path | None, once: bool, as_json: bool
) -> None:
    """Watch a run in progress: rate, slack, overruns, latency by link, signals.

    RUN is a process number, the name of a scenario, or tcp://HOST:PORT (default: the only run).

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
    """Return the names of the signals that match ``wanted``, or all names, those of views first."""
    known = list(run.signals)
    names = []
    for pattern in wanted:
        found = [n for n in known if fnmatchcase(n, pattern)]
        if not found:
            raise UnknownName("signal", pattern, known, "this run")
        names += [n for n in found if n not in names]
    return (names or in_views(known, run.about.get("views")))[:_MOST_SIGNALS]


def in_views(known: Sequence[str], views: object) -> list[str]:
    """Return ``known`` names in the order of ``views`` (plain data), then the others.

    An array of a view stands for its elements, such as ``f16.position_0``.  Views that are not
    valid are left out.
    """
    found: dict[str, None] = {}
    for plain in views if isinstance(views, list) else ():
        with suppress(ScenarioError):
            for name in View.from_dict(plain).names():
                elements = re.compile(rf"{re.escape(name)}(_[0-9]+)*\Z")
                found.update(dict.fromkeys(n for n in known if elements.match(n)))
    return list(dict.fromkeys([*found, *known]))


class Screen:
    """The interactive screen of a run in progress: updates it and handles keys."""

    def __init__(self, run: Run, shown: Dashboard, names: list[str], every_s: float) -> None:
        self._run, self._shown, self._names, self._every_s = run, shown, names, every_s
        self._said = ""
        self._asking: Callable[[str], None] | None = None
        """Function that receives the text that is being typed; ``None`` while keys are commands."""
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
        """Show the screen until the user leaves or the run ends; return the reason."""
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

    # -- what keys do

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

"""What every command that opens a window shares: its options, and the viewer beside a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import F
from rtsim.control.desk import Inbox
from rtsim.errors import ScenarioError
from rtsim.executive import Publisher
from rtsim.pilot.flights import seen_as
from rtsim.pilot.launching import ViewerProcess, Window
from rtsim.pilot.loop import Cockpit
from rtsim.scenario import Scenario

_OPTIONS = (
    click.option("--headless", is_flag=True, help="Open no window; see --frames."),
    click.option(
        "--frames",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Save what the window shows there, as PNG files.",
    ),
    click.option(
        "--every", default=1.0, show_default=True, help="Seconds between two of --frames."
    ),
    click.option("--fps", default=60.0, show_default=True, help="Frames a second."),
    click.option("--size", default="1280x720", show_default=True, help="Of the window."),
)


quiet_option = click.option(
    "--quiet", is_flag=True, help="No horn, and no stick that shakes, whatever warns."
)


def window_options(command: F) -> F:
    """Options of a window, handed to ``command`` as its argument ``window``."""

    @wraps(command)
    def packed(
        headless: bool, frames: Path | None, every: float, fps: float, size: str, **options: Any
    ) -> Any:
        if every <= 0:
            raise ScenarioError(f"--every {every:g}; give seconds > 0")
        window = Window(headless, frames, every, None, fps, _size(size))
        return command(window=window, **options)

    decorated: Any = packed
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def view_options(command: F) -> F:
    """The same behind ``--view``: ``window`` is None where nothing is to be seen."""

    @wraps(command)
    def asked(window: Window, view: bool, **options: Any) -> Any:
        if not view and window != Window():
            raise ScenarioError("--headless, --frames, --every, --fps and --size go with --view")
        return command(window=window if view else None, **options)

    flag = click.option("--view", is_flag=True, help="Watch it in a window.")
    decorated: Any = flag(window_options(asked))
    return decorated  # type: ignore[no-any-return]


def rate_given() -> bool:
    """Whether somebody typed ``--pace``; a window is paced where nobody did."""
    source = click.get_current_context().get_parameter_source("pace")
    return source is not click.core.ParameterSource.DEFAULT


class Viewed:
    """A run's viewer, for :func:`rtsim.cli.flight.fly`; ``stick`` names the inlet it moves."""

    def __init__(self, window: Window, stick: Callable[[Scenario], str] | None = None) -> None:
        self._window, self._stick = window, stick
        self._cockpits: list[Cockpit] = []
        self._gone = False

    @contextmanager
    def watch(self, scenario: Scenario, gate: Inbox | None) -> Iterator[tuple[Publisher, Inbox]]:
        stick = "" if self._stick is None else self._stick(scenario)
        about = seen_as(str(scenario.origin.get("reference", scenario.name)))
        with (
            Cockpit(scenario, stick, about, gate) as cockpit,
            ViewerProcess(cockpit.shared.path, self._window) as viewer,
        ):
            self._cockpits.append(cockpit)
            yield cockpit.pictures, cockpit.inbox
            self._gone = not viewer.running

    def figures(self, reason: str) -> dict[str, Any]:
        """How it went; ``reason`` is why the run ended."""
        found = self._cockpits[-1].latencies()
        return {**found, "window_lost": self._gone and reason == "end"}


def told_of(figures: dict[str, Any]) -> str:
    """Frames and what became of the window, in a line."""
    line = f"window: {figures['frames']} frames, {figures['frames_dropped']} dropped"
    return line + ("; it was gone before the end" if figures["window_lost"] else "")


def _size(text: str) -> str:
    width, x, height = text.partition("x")
    if not (x and width.isdigit() and height.isdigit()):
        raise ScenarioError(f"--size {text!r}; write WIDTHxHEIGHT, such as 1280x720")
    if not (160 <= int(width) <= 7680 and 120 <= int(height) <= 4320):
        raise ScenarioError(f"--size {text}; give 160x120 to 7680x4320")
    return text

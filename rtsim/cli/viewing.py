"""What every command that opens a window shares: its options, and the viewer beside a run."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from rtsim.cli.common import F
from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.net.keys import CLIENT
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.inbox import Inbox
from rtsim.engine.executive import StatePublisher
from rtsim.gateway.registry import VIEWED, RegisteredRun, enter
from rtsim.pilot.launching import RelayProcess, ViewerProcess, Window
from rtsim.scenario.parts import ExternalInputPart
from rtsim.scenario.scenario import Scenario

if TYPE_CHECKING:
    from rtsim.pilot.loop import Cockpit

HERE = "window"
"""What ``--view`` stands for by itself."""
_LATELY_NS = 2 * NS_PER_S
"""A viewer says how it does twice a second."""
_SIZE = re.compile("([0-9]{1,5})x([0-9]{1,5})")
_PLACE = re.compile(r".+://.*|[^/\\]+:[0-9]+")
"""What is meant as an address; without ``tcp://`` it is refused as one."""

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
        if not 0.0 < every < math.inf:
            raise ScenarioError(f"--every {every:g}; give seconds > 0")
        window = Window(headless, _folder(frames), every, None, fps, _size(size))
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


class Viewable(click.Command):
    """A command whose ``--view`` stands alone, or before ``tcp://HOST:PORT``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """An address belongs to ``--view``; whatever else follows it does not."""
        joined: list[str] = []
        for word in args:
            if joined and joined[-1] == "--view" and is_place(word):
                joined[-1] = f"--view={word}"
            else:
                joined.append(word)
        return super().parse_args(
            ctx, [f"--view={HERE}" if word == "--view" else word for word in joined]
        )


def place_options(command: F, view: str = "") -> F:
    """Those of :func:`window_options`, and where the window is: here, or at another machine.

    Goes with :class:`Viewable`.  ``window`` is None where ``view`` is empty.
    """

    @wraps(command)
    def placed(window: Window, view: str, view_keys: Path | None, **options: Any) -> Any:
        served = _served(view, view_keys)
        if view != HERE and window != Window():
            where = "--view" if not view else f"a window here, and not with --view {view}"
            raise ScenarioError(f"--headless, --frames, --every, --fps and --size go with {where}")
        given = None if not view else replace(window, served=served)
        return command(window=given, **options)

    options = (
        click.option(
            "--view",
            default=view,
            metavar="[tcp://HOST:PORT]",
            help="Watch it in a window here, or at another machine: rtsim view tcp://HOST:PORT.",
        ),
        click.option(
            "--view-keys",
            type=click.Path(path_type=Path),
            help="For --view tcp://HOST:PORT: the file that rtsim keys wrote.",
        ),
    )
    decorated: Any = window_options(placed)
    for option in reversed(options):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def _served(view: str, keys: Path | None) -> tuple[str, Path] | None:
    """Address and keys, where the window is elsewhere.

    Whoever reaches it flies and ends the run: keys are needed on loopback too, as for control.
    """
    if view in ("", HERE):
        if keys is not None:
            raise ScenarioError(f"--view-keys {keys} go with --view tcp://HOST:PORT")
        return None
    from rtsim.core.net.sockets import check_served

    return view, check_served(
        view,
        keys,
        f"--view {view} is given without keys, and whoever reaches it flies the run; make some: "
        f"rtsim keys view.keys, then --view-keys view.keys (view.keys{CLIENT} goes to the other "
        "machine)",
    )


def typed(option: str) -> bool:
    """Whether somebody typed it, or it is the default."""
    source = click.get_current_context().get_parameter_source(option)
    return source is not click.core.ParameterSource.DEFAULT


class Viewed:
    """A run's viewer, for :func:`rtsim.cli.flight.fly`; ``stick`` names the inlet it moves."""

    def __init__(self, window: Window, stick: Callable[[Scenario], str] | None = None) -> None:
        self._window, self._stick = window, stick
        self._cockpits: list[Cockpit] = []
        self._gone = False
        self._skipped = 0

    @contextmanager
    def watch(
        self, scenario: Scenario, gate: Inbox | None
    ) -> Iterator[tuple[StatePublisher, Inbox]]:
        from rtsim.pilot.loop import Cockpit
        from rtsim.pilot.scenes.registry import check_scene_name

        stick = "" if self._stick is None else self._stick(scenario)
        about = {"scenario": str(scenario.origin.get("reference", scenario.name))}
        if self._window.served is None and scenario.presentation.scene:
            check_scene_name(scenario.presentation.scene)
        safe = safe_values(scenario, stick, self._window.mapping)
        with (
            Cockpit(scenario, stick, about, gate) as cockpit,
            self._child(cockpit.shared.path) as child,
            _entered(about["scenario"], cockpit.shared.path),
        ):
            self._cockpits.append(cockpit)
            if cockpit.stick is not None:
                cockpit.stick.safe = safe
            yield cockpit.pictures, cockpit.inbox
            last = cockpit.figures.viewer()["wall"]
            self._gone = not child.running and stopwatch() - last > _LATELY_NS
        self._skipped = child.skipped if isinstance(child, RelayProcess) else 0

    def _child(self, shared: Path) -> ViewerProcess | RelayProcess:
        served = self._window.served
        if served is None:
            return ViewerProcess(shared, self._window)
        return RelayProcess(shared, *served)

    def figures(self, reason: str) -> dict[str, Any]:
        """How it went; ``reason`` is why the run ended."""
        cockpit = self._cockpits[-1]
        return {
            **cockpit.latencies(),
            "window_lost": self._gone and reason == "end",
            "ended_there": cockpit.inbox.quit and reason == "quit",
            "refused": cockpit.inbox.refused,
            "skipped": self._skipped,
        }


@contextmanager
def _entered(scenario: str, shared: Path) -> Iterator[None]:
    """``rtsim view`` finds it."""
    try:
        entry = enter(RegisteredRun(os.getpid(), os.getpid(), scenario, str(shared)), VIEWED)
    except (RtsimError, OSError) as error:
        click.echo(f"rtsim view will not find this run: {error}", err=True)
        yield
        return
    try:
        yield
    finally:
        entry.unlink(missing_ok=True)


def safe_values(scenario: Scenario, stick: str, mapping: Path | None) -> Vector:
    """Where the stick goes when its window is gone, (n,): as the mapping declares it.

    Over a line the mapping is the other machine's, and rtsim's own stands for it.  Raises
    :class:`RtsimError` for one that cannot be followed, before a window is open.
    """
    part = scenario.of(ExternalInputPart).get(stick)
    if part is None:
        return np.zeros(0)
    from rtsim.pilot.devices.mapping import read_mapping
    from rtsim.pilot.devices.writing import own_mapping

    signals = part.inlet.signals
    values = own_mapping(signals) if mapping is None else read_mapping(mapping, signals)
    return np.array([value.safe for value in values])


def told_of(figures: dict[str, Any]) -> list[str]:
    """Frames and what became of the window, a line each."""
    lines = [f"window: {figures['frames']} frames, {figures['frames_dropped']} dropped"]
    return [*lines, *what_became_of(figures)]


def what_became_of(figures: dict[str, Any]) -> list[str]:
    """Of the window, as far as it was not open to the end of the run."""
    lines = []
    if figures["window_lost"]:
        lines.append("the window was gone before the end; the run went on alone")
    if figures["ended_there"]:
        lines.append("ended from the window, by Esc")
    if figures["skipped"]:
        lines.append(f"{figures['skipped']} messages from other machines were none: skipped")
    return lines


def _size(text: str) -> str:
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ScenarioError(f"--size {text!r}; write WIDTHxHEIGHT, such as 1280x720")
    width, height = map(int, found.groups())
    if not (160 <= width <= 7680 and 120 <= height <= 4320):
        raise ScenarioError(f"--size {text}; give 160x120 to 7680x4320")
    return text


def is_place(word: str) -> bool:
    """Whether it is meant as an address, be it without its ``tcp://``."""
    return _PLACE.fullmatch(word) is not None


def _folder(frames: Path | None) -> Path | None:
    """Made here, where whoever typed it is told; the viewer's process has no words for it."""
    if frames is None:
        return None
    try:
        frames.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ScenarioError(f"--frames {frames}: {error.strerror}; give another folder") from error
    if not os.access(frames, os.W_OK | os.X_OK):
        raise ScenarioError(f"--frames {frames}: nothing may be written there; give another folder")
    return frames

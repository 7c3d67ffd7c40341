"""Windows of a run and the command ``rtsim view``."""

from __future__ import annotations

import json
import math
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from rtsim.cli.common import F, reports_errors
from rtsim.cli.options import option, with_options
from rtsim.cli.terminal import is_terminal
from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.extras import installed
from rtsim.core.net.keys import CLIENT, Keys
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.commands import Inbox
from rtsim.engine.executive import StatePublisher
from rtsim.gateway.registry import VIEWED, RegisteredRun, enter, find, runs
from rtsim.pilot.processes import (
    FLIGHTGEAR_VERSIONS,
    FlightGearProcess,
    RelayProcess,
    ViewerProcesses,
    Window,
)
from rtsim.pilot.shared import Exchange, Shared
from rtsim.pilot.views import is_viewpoint, read_viewpoint
from rtsim.scenario.component import readable
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ExternalInputComponent, PlantComponent
from rtsim.timing.scheduling import SchedulingRequest, request

if TYPE_CHECKING:
    from rtsim.pilot.flightgear import Address
    from rtsim.pilot.loop import Cockpit


HERE = "window"
"""Value of ``--view`` without an address."""
_LATELY_NS = 2 * NS_PER_S
"""Time without a report after which a viewer has ended, ns. Viewers report twice per second."""
_SIZE = re.compile("([0-9]{1,5})x([0-9]{1,5})")
_PLACE = re.compile(r".+://.*|[^/\\]+:[0-9]+")
"""Pattern of a text that is meant as an address. An address without ``tcp://`` is an error."""

_OPTIONS = (
    click.option(
        "--headless", is_flag=True, help="Open no window; --frames still saves the pictures."
    ),
    click.option(
        "--frames",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Save pictures of the window as PNG files in this folder.",
    ),
    click.option(
        "--every",
        default=1.0,
        show_default=True,
        help="With --frames: wall-clock time between two saved pictures, s.",
    ),
    click.option(
        "--fps",
        default=60.0,
        show_default=True,
        help="Number of pictures that the window draws per second.",
    ),
    click.option(
        "--size",
        default="1280x720",
        show_default=True,
        help="Size of the window in pixels, WIDTHxHEIGHT.",
    ),
    click.option(
        "--full-screen",
        is_flag=True,
        help="Fill the screen. F11 switches between full screen and window.",
    ),
)


quiet_option = click.option(
    "--quiet", is_flag=True, help="Switch off warning sounds and the shaking of the stick."
)


def window_options(command: F) -> F:
    @wraps(command)
    def packed(
        headless: bool, frames: Path | None, every: float, fps: float, size: str,
        full_screen: bool, **options: Any,
    ) -> Any:  # fmt: skip
        if not 0.0 < every < math.inf:
            raise ScenarioError(f"--every {every:g} is out of range; give seconds > 0")
        window = Window(
            headless, _folder(frames), every, None, fps, _size(size), full_screen=full_screen
        )
        return command(window=window, **options)

    return with_options(packed, _OPTIONS)  # type: ignore[no-any-return]


def view_options(command: F) -> F:
    """Decorate ``command`` like :func:`window_options`, with a flag ``--view``.

    Without the flag, ``window`` is ``None``.
    """

    @wraps(command)
    def asked(window: Window, view: bool, **options: Any) -> Any:
        if not view and window != Window():
            raise ScenarioError(
                "--headless, --frames, --every, --fps, --size and --full-screen work only with "
                "--view; add --view"
            )
        return command(window=window if view else None, **options)

    flag = click.option("--view", is_flag=True, help="Show the recording in a window.")
    decorated: Any = flag(window_options(asked))
    return decorated  # type: ignore[no-any-return]


class Viewable(click.Command):
    """A command whose option ``--view`` has an optional value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; the word after ``--view`` is its value if it is a view."""
        joined: list[str] = []
        for word in args:
            if joined and joined[-1] == "--view" and (is_place(word) or is_viewpoint(word)):
                joined[-1] = f"--view={word}"
            else:
                joined.append(word)
        return super().parse_args(
            ctx, [f"--view={HERE}" if word == "--view" else word for word in joined]
        )


def place_options(command: F, view: str = "") -> F:
    """Add the options for local and remote windows to ``command``.

    The command must have the class :class:`Viewable`. ``view`` is the default of ``--view``. If
    ``--view`` is empty, ``window`` is ``None``.
    """

    @wraps(command)
    def placed(
        window: Window, view: tuple[str, ...], view_keys: Path | None, **options: Any
    ) -> Any:
        place, views = _places(view)
        served = _served(place, view_keys)
        if place != HERE and window != Window():
            where = "--view" if not place else f"a window on this machine, not with --view {place}"
            raise ScenarioError(
                "--headless, --frames, --every, --fps, --size and --full-screen work only with "
                f"{where}"
            )
        given = None if not place else replace(window, served=served, views=views)
        return command(window=given, **options)

    options = (
        click.option(
            "--view",
            multiple=True,
            default=(view,) if view else (),
            metavar="[VIEW|tcp://HOST:PORT]",
            help="Show the run in a window on this machine. VIEW is front, left, right, back, up, "
            "down, chase, signals or an angle to the right such as -35deg; repeat --view for "
            "several windows. With an address, show the run in a window on another machine, which "
            "'rtsim view tcp://HOST:PORT' opens there.",
        ),
        click.option(
            "--view-keys",
            type=click.Path(path_type=Path),
            help="Key file for --view tcp://HOST:PORT, which 'rtsim keys' wrote for the run.",
        ),
    )
    return with_options(window_options(placed), options)  # type: ignore[no-any-return]


def _places(given: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the place of the windows, and the views of the windows on this machine.

    The place is ``HERE`` for windows on this machine, an address for windows elsewhere, and ""
    without windows.
    """
    views = tuple(one for one in given if one != HERE and not is_place(one))
    for one in views:
        read_viewpoint(one)
    places = [one for one in given if is_place(one)]
    if places and len(given) > 1:
        raise ScenarioError(
            f"--view {places[0]} serves windows on other machines, so it must be the only --view; "
            "leave the other --view options out, and choose the view on the other machine: rtsim "
            "view tcp://HOST:PORT --view VIEW"
        )
    plain = given.count(HERE)
    if len(set(views)) < len(views) or plain > 1 or (plain and views):
        raise ScenarioError(
            "--view is given several times; give each time another view, such as --view left "
            "--view front --view right"
        )
    return (places[0] if places else HERE if given else ""), views


def _served(view: str, keys: Path | None) -> tuple[str, Path] | None:
    if view in ("", HERE):
        if keys is not None:
            raise ScenarioError(
                f"--view-keys {keys} works only with --view tcp://HOST:PORT; add the address"
            )
        return None
    from rtsim.core.net.sockets import check_served

    return view, check_served(
        view,
        keys,
        f"--view {view} needs keys, because any client at this address can control the run; "
        f"type: rtsim keys view.keys, add --view-keys view.keys, and copy view.keys{CLIENT} to "
        "the other machine",
    )


def typed(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source is not click.core.ParameterSource.DEFAULT


def viewer(
    window: Window | None, quiet: bool, outside: OutsideWindow | None = None
) -> Viewed | None:
    if quiet and (window is None or window.served is not None):
        raise ScenarioError(
            "--quiet works only with --view in a window on this machine; leave --quiet out"
        )
    if window is not None:
        return Viewed(replace(window, quiet=quiet), outside=outside)
    return None if outside is None else Viewed(None, outside=outside)


class Viewed:
    """The viewer of a run, for :func:`rtsim.cli.running.run_command`.

    ``stick`` returns the name of the external input that the viewer controls. If only FlightGear
    shows the run, ``window`` is ``None``. Raises :class:`ScenarioError` if the packages of a window
    on this machine are missing.
    """

    def __init__(
        self,
        window: Window | None,
        stick: Callable[[Scenario], str] | None = None,
        outside: OutsideWindow | None = None,
    ) -> None:
        if window is not None and window.served is None:
            installed("pygame", "pilot", "the window")
        self._window, self._stick, self._outside = window, stick, outside
        self._cockpits: list[Cockpit] = []
        self._gone = False
        self._skipped = 0

    @contextmanager
    def watch(
        self, scenario: Scenario, gate: Inbox | None
    ) -> Iterator[tuple[StatePublisher, Inbox]]:
        from rtsim.pilot.loop import Cockpit
        from rtsim.pilot.scenes.scene import check_scene_name

        stick = "" if self._stick is None else self._stick(scenario)
        about = {"scenario": str(scenario.origin.get("reference", scenario.name))}
        window = self._window
        if window is not None and window.served is None and scenario.presentation.scene:
            check_scene_name(scenario.presentation.scene)
        safe = safe_values(scenario, stick, None if window is None else window.mapping)
        with (
            Cockpit(scenario, stick, about, gate) as cockpit,
            self._child(cockpit.shared.path) as child,
            self._seen_outside(scenario, cockpit.shared.path),
            _entered(about["scenario"], cockpit.shared.path),
        ):
            self._cockpits.append(cockpit)
            if cockpit.stick is not None:
                cockpit.stick.safe = safe
            yield cockpit.pictures, cockpit.inbox
            last = cockpit.figures.viewer()["wall"]
            open_still = child is None or child.running
            self._gone = not open_still and stopwatch() - last > _LATELY_NS
        self._skipped = child.skipped if isinstance(child, RelayProcess) else 0

    def _seen_outside(self, scenario: Scenario, shared: Path) -> AbstractContextManager[None]:
        if self._outside is None:
            return nullcontext()
        return self._outside.showing(scenario, shared)

    def _child(self, shared: Path) -> ViewerProcesses | RelayProcess | AbstractContextManager[None]:
        if self._window is None:
            return nullcontext()
        served = self._window.served
        if served is None:
            return ViewerProcesses(shared, self._window.each())
        return RelayProcess(shared, *served)

    @property
    def told_outside(self) -> list[str]:
        return [] if self._outside is None else [self._outside.told()]

    @property
    def outside(self) -> dict[str, Any]:
        """Data about FlightGear for ``--json``. Empty without ``--flightgear``."""
        return {} if self._outside is None else {"flightgear": self._outside.to_json()}

    def seen(self, reason: str) -> dict[str, Any]:
        return {} if self._window is None else {"view": self.figures(reason)}

    def figures(self, reason: str) -> dict[str, Any]:
        cockpit = self._cockpits[-1]
        return {
            **cockpit.latencies(),
            "window_lost": self._gone and reason == "end",
            "ended_there": cockpit.inbox.quit and reason == "quit",
            "unattended": cockpit.inbox.unattended and reason == "quit",
            "refused": cockpit.inbox.refused,
            "skipped": self._skipped,
        }


@contextmanager
def _entered(scenario: str, shared: Path) -> Iterator[None]:
    try:
        entry = enter(RegisteredRun(os.getpid(), os.getpid(), scenario, str(shared)), VIEWED)
    except (RtsimError, OSError) as error:
        click.echo(f"rtsim view cannot find this run: {error}", err=True)
        yield
        return
    try:
        yield
    finally:
        entry.unlink(missing_ok=True)


def safe_values(scenario: Scenario, stick: str, mapping: Path | None) -> Vector:
    """Return the values (n,) that the signals of ``stick`` take after the window was closed.

    The values come from the file ``mapping``. Raises :class:`RtsimError` for an invalid mapping.
    """
    part = scenario.of(ExternalInputComponent).get(stick)
    if part is None:
        return np.zeros(0)
    from rtsim.pilot.devices.calibration import own_mapping
    from rtsim.pilot.devices.mapping import read_mapping

    signals = part.external_input.signals
    values = own_mapping(signals) if mapping is None else read_mapping(mapping, signals)
    return np.array([value.safe for value in values])


def _size(text: str) -> str:
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ScenarioError(f"--size {text!r} is malformed; write WIDTHxHEIGHT, such as 1280x720")
    width, height = map(int, found.groups())
    if not (160 <= width <= 7680 and 120 <= height <= 4320):
        raise ScenarioError(f"--size {text} is out of range; give 160x120 to 7680x4320")
    return text


def is_place(word: str) -> bool:
    """Return True if ``word`` is an address, with or without ``tcp://``."""
    return _PLACE.fullmatch(word) is not None


def _folder(frames: Path | None) -> Path | None:
    if frames is None:
        return None
    try:
        frames.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ScenarioError(f"--frames {frames}: {error.strerror}; give another folder") from error
    if not os.access(frames, os.W_OK | os.X_OK):
        raise ScenarioError(f"--frames {frames}: the folder is not writable; give another folder")
    return frames


# The window in the summary of a run


def told_of(figures: dict[str, Any]) -> list[str]:
    """Return how many frames a window has drawn, and why it ended early."""
    lines = [f"window: {figures['frames']} frames, {figures['frames_dropped']} dropped"]
    return [*lines, *what_became_of(figures)]


def what_became_of(figures: dict[str, Any]) -> list[str]:
    lines = []
    if figures["window_lost"]:
        lines.append("the window was closed before the end; the run continued without it")
    if figures["ended_there"]:
        lines.append("the run was ended from the window with Esc")
    if figures["unattended"]:
        lines.append(
            "the run was paused, and no window was open for 60 s, so it was ended; "
            "rtsim view opens another window on a run"
        )
    if figures["skipped"]:
        lines.append(f"{figures['skipped']} malformed messages from other machines were dropped")
    return lines


# FlightGear as the outside window of a run


def flightgear_options(command: F) -> F:
    @wraps(command)
    def given(flightgear: str | None, flightgear_version: str, **options: Any) -> Any:
        version = int(flightgear_version)
        if flightgear is None:
            if version != FLIGHTGEAR_VERSIONS[0]:
                raise ScenarioError("--flightgear-version works only with --flightgear HOST")
            return command(outside=None, **options)
        from rtsim.pilot.flightgear import Address, Packets

        Packets(version)  # fails before the run if the package is missing
        return command(outside=OutsideWindow(Address.of(flightgear), version), **options)

    options = (
        click.option(
            "--flightgear",
            metavar="HOST[:PORT]",
            help="Show the outside view in FlightGear on HOST, started with --fdm=null "
            "--native-fdm=socket,in,60,,5500,udp.",
        ),
        click.option(
            "--flightgear-version",
            type=click.Choice([str(version) for version in FLIGHTGEAR_VERSIONS]),
            default=str(FLIGHTGEAR_VERSIONS[0]),
            show_default=True,
            help="Version of FlightGear's native protocol: 24 for FlightGear 2020.3.",
        ),
    )
    return with_options(given, options)  # type: ignore[no-any-return]


@dataclass
class OutsideWindow:
    """FlightGear as a viewer of a run, with the number of sent packets."""

    address: Address
    version: int
    figures: dict[str, Any] | None = None
    """Numbers of packets, available after the end. ``None`` if the process was killed."""

    @contextmanager
    def showing(self, scenario: Scenario, shared: Path) -> Iterator[None]:
        """Context manager that sends the states of a run to FlightGear, in a separate process."""
        from rtsim.pilot.flightgear import outside_body

        plants = {
            name: readable(plant, scenario.components)
            for name, plant in scenario.of(PlantComponent).items()
        }
        body = json.dumps(outside_body(scenario.bodies, plants, scenario.name).to_plain())
        process = FlightGearProcess(shared, str(self.address), body, self.version)
        with process:
            yield
        self.figures = process.figures

    def told(self) -> str:
        if self.figures is None:
            return f"FlightGear at {self.address}: the process that sends to it ended early"
        lost = self.figures["lost"]
        return f"FlightGear at {self.address}: {self.figures['sent']} packets sent" + (
            f", {lost} could not be sent" if lost else ""
        )

    def to_json(self) -> dict[str, Any]:
        return {"address": str(self.address), **(self.figures or {"ended_early": True})}


@click.command()
@click.argument("run", required=False, default="", metavar="[RUN]")
@option("--keys", metavar="FILE")
@option("--mapping")
@click.option(
    "--view",
    "viewpoint",
    default="",
    metavar="VIEW",
    help="front, left, right, back, up, down, chase, signals, or an angle to the right such as "
    "-35deg.  [default: the first view of the scene]",
)
@reports_errors
@window_options
@quiet_option
def view(
    run: str, keys: Path | None, mapping: Path | None, viewpoint: str, window: Window, quiet: bool
) -> None:
    """Open a window of RUN, which was started with --view or by 'rtsim fly'.

    RUN is a process number, the name of a scenario, or tcp://HOST:PORT; it can be omitted if only
    one run is in progress. Only the first window of a run controls the stick. Other windows only
    show the run while the first window is open.

    \b
    Examples:
      rtsim view
      rtsim view f16
      rtsim view f16 --view left --full-screen
      rtsim view tcp://192.168.1.20:5999 --keys view.keys.client
    """
    from rtsim.pilot.viewer.process import watch

    read_viewpoint(viewpoint)
    window = replace(
        window, mapping=mapping, quiet=quiet, view=viewpoint, without_stick=bool(viewpoint)
    )
    place = (
        nullcontext() if "://" in run else request(SchedulingRequest.window())
    )  # a window on the machine of the run yields to it
    with place, closing(_exchange(run, keys)) as exchange:
        why = watch(exchange, window, threading.Event())
        click.echo(why)
        skipped = getattr(exchange, "skipped", 0)
        if skipped:
            click.echo(f"{skipped} malformed messages from the run's machine were dropped")


def _chosen() -> RegisteredRun:
    known = runs(VIEWED)
    if not is_terminal():
        return find("", VIEWED)  # raises an error that lists the runs
    for entry in known:
        click.echo(f"{entry.pid}  {entry.scenario}")
    numbers = click.Choice([str(entry.pid) for entry in known])
    return find(click.prompt("which one?", type=numbers, show_choices=False), VIEWED)


def _exchange(run: str, keys: Path | None) -> Exchange:
    if "://" not in run:
        if is_place(run):
            raise ScenarioError(
                f"{run} looks like an address; write tcp://{run} for a run on another machine"
            )
        if keys is not None:
            raise ScenarioError(
                f"--keys {keys} works only with an address tcp://HOST:PORT; leave --keys out"
            )
        entry = _chosen() if not run and len(runs(VIEWED)) > 1 else find(run, VIEWED)
        click.echo(f"watching {entry.scenario} (process {entry.pid})")
        return Shared.open(Path(entry.endpoint))
    from rtsim.pilot.remote import RemoteExchange

    if keys is None:
        raise ScenarioError(
            f"a window of {run} needs the client key file that 'rtsim keys' wrote with the "
            f"keys of the run; give --keys FILE{CLIENT}"
        )
    return RemoteExchange.connect(run, Keys.load(keys))

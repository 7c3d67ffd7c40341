"""Networks beside the CAN bus, and network files that describe them.

A network file (TOML) has a table for each medium.  Its key ``kind`` names the class of the medium,
its table ``frames`` has the arguments of ``frame`` for each message, and the other keys are the
arguments of the class::

    [backbone]
    kind = "ethernet"
    bitrate = 100_000_000

    [backbone.frames]
    radar = { source = "front", to = "computer", priority = 6, length = 1400 }

The argument ``of`` of a frame can be a text ``FILE:FRAME``, such as ``car.dbc:Wheel``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from rtsim.components.can_bus import CanBus
from rtsim.components.frames import read_frames
from rtsim.components.medium import Medium, SharedTransport
from rtsim.components.networks.ethernet import Ethernet
from rtsim.components.networks.lin import LinBus
from rtsim.components.networks.time_division import TimeDivision
from rtsim.components.networks.wireless import WirelessChannel
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.extension_point import ExtensionPoint
from rtsim.core.toml import Place, open_toml

MediumMaker = Callable[..., Medium]
"""A class or function that makes a medium from named arguments, among them ``name``."""


def _checked(name: str, made: object) -> MediumMaker:
    if not callable(made):
        raise ScenarioError(
            f"medium {name!r} is {made!r}; expected a class or a function that makes a medium"
        )
    return made


MEDIA: ExtensionPoint[MediumMaker] = ExtensionPoint(
    "rtsim.media",
    "kind of medium",
    {
        "can": CanBus, "ethernet": Ethernet, "flexray": TimeDivision.flexray, "lin": LinBus,
        "time_division": TimeDivision, "wireless": WirelessChannel,
    },
    _checked,
)  # fmt: skip
"""The class or function that makes each kind of medium, by the name of the kind."""


class Network(Mapping[str, SharedTransport]):
    """The transports of the messages on one medium of a network file, by the names of messages."""

    def __init__(self, medium: Medium, frames: Mapping[str, SharedTransport], source: str) -> None:
        self.medium = medium
        self._frames, self._source = dict(frames), source

    def __getitem__(self, name: str) -> SharedTransport:
        if name not in self._frames:
            where = f"{self.medium.name} of {self._source}"
            raise UnknownName("message", name, self._frames, where)
        return self._frames[name]

    def __contains__(self, name: object) -> bool:
        return name in self._frames

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)


def read_networks(path: str | Path) -> dict[str, Network]:
    """Return the media of a network file, by name, with the transports of their messages.

    Raises :class:`ScenarioError` for a mistake in the file.

    Example:
        backbone = read_networks("car.toml")["backbone"]
        out.sensor("radar", {"r": "car.r"}, period=0.01, transport=backbone["radar"])
    """
    path = Path(path)
    file = open_toml(path, "a network file", "network.toml")
    if not file.data:
        raise ScenarioError(f"{path} describes no medium; write a table [NAME] with a kind")
    return {name: _network(name, given, file.place, path) for name, given in file.data.items()}


def _network(name: str, given: Any, outer: Place, path: Path) -> Network:
    if not isinstance(given, Mapping):
        raise outer.error(name, f"{name} is not a table; write a table [{name}] with a kind")
    place, options = outer.inner(name), dict(given)
    kind, frames = options.pop("kind", ""), options.pop("frames", {})
    with place.checking("kind"):
        make = MEDIA.get_or_raise(str(kind))
        _check_keys(make, options)
        medium: Any = make(name=name, **options)
    inner, found = place.inner("frames"), {}
    for message, arguments in frames.items():
        with inner.checking(message):
            _check_keys(medium.frame, arguments)
            found[message] = medium.frame(**_with_codec(arguments, path.parent))
    return Network(medium, found, str(path))


def _check_keys(make: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raise :class:`UnknownName` for a key that is no argument of ``make``."""
    arguments = signature(make).parameters.values()
    if any(one.kind is Parameter.VAR_KEYWORD for one in arguments):
        return
    known = [one.name for one in arguments if one.kind is not Parameter.VAR_POSITIONAL]
    for key in given:
        if key not in known:
            raise UnknownName("key", key, [name for name in known if name != "name"])


def _with_codec(arguments: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Replace a text ``FILE:FRAME`` in the argument ``of`` by the codec of this frame."""
    of = arguments.get("of")
    if not isinstance(of, str):
        return dict(arguments)
    file, _, frame = of.rpartition(":")
    return {**arguments, "of": read_frames(folder / file)[frame]}

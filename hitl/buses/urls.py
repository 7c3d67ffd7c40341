"""URLs of links that carry frames.

==================================================  =============================================
``can://virtual/car``                               a bus within this process
``can://udp_multicast/239.74.163.2``                a bus between processes on this machine
``can://socketcan/can0``                            a CAN interface of Linux
``can://slcan//dev/ttyACM0?bitrate=500000``         a USB adapter at a serial port
``udp://127.0.0.1:5005?bind=127.0.0.1:5006``        datagrams to one port, and from another
``mavlink://udp/127.0.0.1:14560``                   MAVLink in datagrams; also ``tcp``, ``listen``
``mavlink://serial//dev/ttyACM0?baud=921600``       MAVLink at a serial port
``zenoh://127.0.0.1:7447?frames=robot.ros2``        topics of ROS 2 nodes
==================================================  =============================================

The option ``frames=FILE`` (or ``dbc=FILE``) names the file that describes the frames.  Links to
other machines require ``remote=yes``.  Packages add schemes through the entry point
``rtsim.frame_links``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from urllib.parse import parse_qsl, unquote, urlsplit

from hitl.buses.can_link import CanLink
from hitl.buses.contract import FrameLink, LinkError
from hitl.buses.mavlink_link import open_mavlink
from hitl.buses.udp_link import UdpLink
from rtsim.core.errors import ScenarioError
from rtsim.core.extension_point import ExtensionPoint

_FILES = ("frames", "dbc")
_FORMS = "can://virtual/NAME, can://socketcan/can0 or udp://127.0.0.1:5005"


@dataclass(frozen=True)
class FrameUrl:
    """A parsed URL of a link."""

    text: str
    scheme: str
    host: str
    """The part after ``//``, such as ``virtual`` or ``127.0.0.1:5005``."""
    path: str
    """The part after the host, without its first slash."""
    options: dict[str, str] = field(default_factory=dict)
    """All options except ``frames``, ``dbc`` and ``remote``."""
    frames: str = ""
    """File that describes the frames; "" if the URL names none."""
    remote: bool = False
    """True if frames may leave this machine."""


LinkMaker = Callable[[FrameUrl], FrameLink]


def _checked(name: str, made: object) -> LinkMaker:
    if not callable(made):
        raise ScenarioError(
            f"frame link {name!r} is {made!r}; expected a function that opens a FrameUrl"
        )
    return made


def _can(url: FrameUrl) -> FrameLink:
    return CanLink(url.text, url.host, url.path, url.options, url.remote)


def _udp(url: FrameUrl) -> FrameLink:
    if url.path:
        raise ScenarioError(f"{url.text}: a UDP address has no path; write udp://HOST:PORT")
    return UdpLink(url.text, url.host, url.options, url.remote)


def _mavlink(url: FrameUrl) -> FrameLink:
    return open_mavlink(url.text, url.host, url.path, url.options, url.remote)


def _zenoh(url: FrameUrl) -> FrameLink:
    from hitl.buses.zenoh_link import ZenohLink  # few scenarios need Zenoh

    if url.path:
        raise ScenarioError(f"{url.text}: a Zenoh address has no path; write zenoh://HOST:PORT")
    return ZenohLink(url.text, url.host, url.options, url.frames, url.remote)


FRAME_LINKS: ExtensionPoint[LinkMaker] = ExtensionPoint(
    "rtsim.frame_links",
    "kind of frame link",
    {"can": _can, "udp": _udp, "mavlink": _mavlink, "zenoh": _zenoh},
    _checked,
)


def parse_frame_url(text: str) -> FrameUrl:
    """Parse the URL of a link; raise :class:`ScenarioError` if it is malformed."""
    try:
        parts = urlsplit(text)
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise ScenarioError(
            f"{text!r} is not a URL of a link ({error}); expected {_FORMS}"
        ) from None
    if not parts.scheme or not parts.netloc:
        raise ScenarioError(f"{text!r} is not a URL of a link; expected {_FORMS}")
    FRAME_LINKS.get_or_raise(parts.scheme, text)
    options = dict(given)
    if len(options) < len(given):
        raise ScenarioError(f"{text}: an option is given twice; give each option once")
    files = [options.pop(key) for key in _FILES if key in options]
    if len(files) > 1:
        raise ScenarioError(f"{text}: give one of the options frames= and dbc=, not both")
    remote = options.pop("remote", "no")
    if remote not in ("yes", "no"):
        raise ScenarioError(f"{text}: remote={remote}; write remote=yes or leave it out")
    for option in options:
        meant = get_close_matches(option, (*_FILES, "remote"), n=1, cutoff=0.75)
        if meant and abs(len(meant[0]) - len(option)) <= 1:
            raise ScenarioError(f"{text}: unknown option {option}; did you mean {meant[0]}?")
    path = unquote(parts.path.removeprefix("/"))
    return FrameUrl(
        text, parts.scheme, unquote(parts.netloc), path, options, "".join(files), remote == "yes"
    )


def open_frame_link(url: str | FrameUrl) -> FrameLink:
    """Open the link of ``url``.

    Raises :class:`ScenarioError` for a wrong URL, and :class:`LinkError` if the link cannot be
    opened.
    """
    parsed = parse_frame_url(url) if isinstance(url, str) else url
    try:
        return FRAME_LINKS.get_or_raise(parsed.scheme, parsed.text)(parsed)
    except OSError as error:
        raise LinkError(f"cannot open {parsed.text}: {error}") from None

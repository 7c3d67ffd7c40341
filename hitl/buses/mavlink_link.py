"""Send and receive MAVLink packets over UDP, TCP or a serial line.

A frame is the payload of one packet, filled with zeros to its full length; its identifier is that
of the message. pymavlink frames the payload (MAVLink 2), and checks length and checksum of received
packets. Only this module uses pymavlink.
"""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any, Protocol, TypeVar

from hitl.boards.contract import BoardError
from hitl.boards.serial_port import SerialLink
from hitl.buses.contract import LinkError
from hitl.buses.udp_link import UdpLink, address_of
from rtsim.components.frames import Frame, FrameCodec, FrameError
from rtsim.components.frames.struct_codec import described_structs
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.extras import needs
from rtsim.core.tag import NS_PER_S

DIALECT = "common"
BAUD = 921_600
T = TypeVar("T")
_MOST_READ = 1 << 16
_MARKER, _MARKER_1, _HEADER, _HEADER_1 = 0xFD, 0xFE, 10, 6
"""First bytes of packets of MAVLink 2 and 1, and bytes before the payload in both."""
_SYSTEM, _COMPONENT = 1, 200
"""Identity of the simulator; 200 is MAV_COMP_ID_SYSTEM_CONTROL."""
_GAP = "packets are missing or out of order: a gap in the sequence numbers"
_LOOK_S = 0.05
_UNITS = {
    "us": ("us", 1.0), "ms": ("ms", 1.0), "m/s/s": ("m/s2", 1.0), "gauss": ("nT", 1e5),
    "hPa": ("Pa", 100.0), "degE7": ("deg", 1e-7), "mm": ("m", 1e-3), "cm": ("m", 1e-2),
    "cm/s": ("m/s", 1e-2), "cdeg": ("deg", 1e-2), "m": ("m", 1.0), "m/s": ("m/s", 1.0),
    "rad": ("rad", 1.0), "rad/s": ("rad/s", 1.0), "deg": ("deg", 1.0), "mV": ("V", 1e-3),
}  # fmt: skip
"""Unit and scale of a signal, for the units of MAVLink; other fields are numbers without a unit."""


def dialect() -> ModuleType:
    """Return pymavlink's module of the dialect ``common``.

    Raises :class:`rtsim.core.errors.ScenarioError` with the command for installation.
    """
    with needs("mavlink", "MAVLink"):
        from pymavlink.dialects.v20 import common
    found: ModuleType = common
    return found


def mavlink_frames(
    messages: Mapping[str, Mapping[str, Mapping[str, Any]]],
) -> dict[str, FrameCodec]:
    """Return the codecs of MAVLink messages, by their names.

    Field names, types and units are those of the dialect ``common``. ``messages`` changes fields of
    a message. A change can contain ``name`` (name of the signal), ``count`` (join this field and
    the following ones to one array), and the keys of a field in a TOML file of frames, such as
    ``value`` and ``initial``. With ``first``, the first elements of an array become signals of
    their own: ``{"first": {"throttle": 4}}``. Units of MAVLink become those of rtsim, such as deg
    instead of degE7.

    Example:
        mavlink_frames({"ATTITUDE": {"time_boot_ms": {"value": 0}, "roll": {"name": "phi"}}})
    """
    known = {c.msgname: c for c in dialect().mavlink_map.values()}
    data = {}
    for name, changes in messages.items():
        if name not in known:
            raise UnknownName("message", name, known, "MAVLink")
        data[name] = {"identifier": known[name].id, "extended": True,
                      "fields": _fields(known[name], changes)}  # fmt: skip
    return dict(described_structs(data, f"MAVLink {DIALECT}"))


def _fields(message: Any, changes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    for name in changes:
        if name not in message.fieldnames:
            raise UnknownName("field", name, message.fieldnames, f"MAVLink {message.msgname}")
    order = message.ordered_fieldnames
    out: dict[str, dict[str, Any]] = {}
    joined = 0
    for place, name in enumerate(order):
        if joined:
            joined -= 1
            continue
        change = dict(changes.get(name, {}))
        kind = message.fieldtypes[message.fieldnames.index(name)]
        kind = {"float": "float32", "double": "float64", "char": "uint8"}.get(
            kind, kind.removesuffix("_t")
        )
        unit, scale = _UNITS.get(message.fieldunits_by_name.get(name, ""), ("1", 1.0))
        field = {"type": kind, "unit": unit, **({} if scale == 1.0 else {"scale": scale})}
        if length := message.array_lengths[place]:
            field["count"] = length
        signal = change.pop("name", name)
        for part, count in change.pop("first", {}).items():
            out[part] = {**field, "count": count}
            field["count"] = length = length - count
        joined = change.get("count", 1) - 1
        if "value" in change:
            field = {"type": kind, **({"count": length} if length else {})}
        out[signal] = field | change
    return out


class Packets:
    """Convert payloads to MAVLink packets, and bytes to payloads."""

    def __init__(self, system: int = _SYSTEM, component: int = _COMPONENT) -> None:
        module = dialect()
        self._classes = module.mavlink_map
        self._message = module.MAVLink_message
        self._mavlink = module.MAVLink(None, srcSystem=system, srcComponent=component)
        self._mavlink.robust_parsing = True
        self._sequence: dict[tuple[int, int], int] = {}
        """Sequence number of the last packet of each sender, by system and component."""

    def pack(self, frame: Frame) -> bytes:
        """Return the packet with a payload; raise :class:`FrameError` for an unknown message."""
        found = self._classes.get(frame.identifier)
        if found is None:
            raise FrameError(f"MAVLink {DIALECT} has no message with identifier {frame.identifier}")
        made = self._message(found.id, found.msgname)
        packet: bytes = made._pack(self._mavlink, found.crc_extra, frame.data)
        self._mavlink.seq = (self._mavlink.seq + 1) % 256
        return bytes(packet)

    def unpack(self, data: bytes) -> Iterable[Frame | FrameError]:
        """Yield the frames that ``data`` completes, and an error for each malformed part."""
        parser = self._mavlink
        message = parser.parse_char(data)
        while message is not None:
            if message.get_type() != "BAD_DATA":
                yield from self._payload(message)
            else:
                yield FrameError(_reason(message.reason))
                if message.data[0] in (_MARKER, _MARKER_1):  # a packet can begin in the rest of it
                    at = parser.buf_index
                    parser.buf[at:at] = message.data[1:]
            message = parser.parse_char(b"")

    def _payload(self, message: Any) -> Iterable[Frame | FrameError]:
        """Yield the frame of a packet, after an error if packets before this one are missing."""
        sender = message.get_srcSystem(), message.get_srcComponent()
        kind = self._classes.get(message.get_msgId())
        if kind is None:  # of another dialect: its checksum cannot be checked
            self._sequence.pop(sender, None)
            return
        packet = bytes(message.get_msgbuf())
        header = _HEADER if packet[0] == _MARKER else _HEADER_1
        number, last = message.get_seq(), self._sequence.get(sender)
        self._sequence[sender] = number
        if last is not None and number != (last + 1) % 256:
            yield FrameError(_GAP)
        payload = packet[header : header + packet[1]]
        length = kind.unpacker.size
        yield Frame(payload[:length].ljust(length, b"\0"), kind.id, True)


def _reason(said: str) -> str:
    """Return pymavlink's reason without the numbers in it, so that reasons can be counted."""
    return f"not a MAVLink packet: {' '.join(w for w in said.split() if w.isalpha())}"


class ByteStream(Protocol):
    """Open connection that carries bytes; the methods raise :class:`LinkError` on failure."""

    def send(self, data: bytes) -> None: ...

    def receive(self, timeout: float) -> bytes: ...

    def close(self) -> None: ...


class MavlinkLink:
    """A :class:`hitl.buses.contract.FrameLink` that carries MAVLink packets over ``stream``."""

    addressed = True

    def __init__(self, name: str, stream: ByteStream) -> None:
        self._name = name
        self._stream: ByteStream | None = stream
        self._packets = Packets()
        self._arrived: deque[Frame | FrameError] = deque()

    def send(self, frame: Frame) -> None:
        self._open().send(self._packets.pack(frame))

    def receive(self, timeout: float) -> Frame | None:
        stream = self._open()
        until = stopwatch() + round(timeout * NS_PER_S)
        while not self._arrived:
            left = max(0, until - stopwatch()) / NS_PER_S
            data = stream.receive(left)
            self._arrived.extend(self._packets.unpack(data))
            if not data and not left:
                return None
        item = self._arrived.popleft()
        if isinstance(item, FrameError):
            raise item
        return item

    def close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def _open(self) -> ByteStream:
        if self._stream is None:
            raise LinkError(f"{self._name} is closed")
        return self._stream


class _Datagrams:
    """Bytes in datagrams, one packet each."""

    def __init__(self, text: str, to: str, options: Mapping[str, str], remote: bool) -> None:
        self._link = UdpLink(text, to, options, remote)

    def send(self, data: bytes) -> None:
        self._link.send(Frame(data))

    def receive(self, timeout: float) -> bytes:
        found = self._link.receive(timeout)
        return b"" if found is None else found.data

    def close(self) -> None:
        self._link.close()


class _Serial:
    """Bytes over a serial port."""

    def __init__(self, text: str, port: str, options: Mapping[str, str]) -> None:
        for name in options:
            if name != "baud":
                raise UnknownName("option", name, ("baud",), text)
        given = options.get("baud", str(BAUD))
        if not (given.isascii() and given.isdigit() and int(given[:9]) > 0):
            raise ScenarioError(f"{text}: baud={given}; give a number of bit/s, such as {BAUD}")
        self._port = _failing(lambda: SerialLink(port, int(given)))

    def send(self, data: bytes) -> None:
        _failing(lambda: self._port.send(data))

    def receive(self, timeout: float) -> bytes:
        return _failing(lambda: self._port.receive() if self._port.wait(timeout) else b"")

    def close(self) -> None:
        self._port.close()


def _failing(call: Callable[[], T]) -> T:
    try:
        return call()
    except BoardError as error:
        raise LinkError(str(error)) from None


class _Tcp:
    """Bytes over TCP: a client, or a server for one client at a time."""

    def __init__(
        self, text: str, at: str, options: Mapping[str, str], remote: bool, listens: bool
    ) -> None:
        for name in options:
            raise UnknownName("option", name, ("remote",), text)
        family, address = address_of(text, at, remote, 0 if listens else 1, socket.SOCK_STREAM)
        self._name, self._listens = text, listens
        self._socket: socket.socket | None = None
        server = socket.socket(family, socket.SOCK_STREAM)
        self._server: socket.socket | None = server if listens else None
        try:
            if listens:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind(address)
                server.listen(1)
            else:
                server.connect(address)
                self._use(server)
        except OSError as error:
            server.close()
            what = "listen at" if listens else "connect to"
            raise LinkError(
                f"cannot {what} {address[0]}:{address[1]} for {text}: {error.strerror}; "
                + ("another program may use this port" if listens else "start the autopilot first")
            ) from None

    @property
    def port(self) -> int:
        """The port of this end."""
        end = self._server or self._socket
        assert end is not None
        port: int = end.getsockname()[1]
        return port

    def _use(self, connected: socket.socket) -> None:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setblocking(False)
        self._socket = connected

    def send(self, data: bytes) -> None:
        if self._socket is None:
            return  # nobody has connected yet
        view = memoryview(data)
        try:
            while view:
                if not select.select([], [self._socket], [], 1.0)[1]:
                    raise LinkError(f"{self._name}: the other end reads no data; restart it")
                view = view[self._socket.send(view) :]
        except OSError as error:
            self._lost(error.strerror)

    def receive(self, timeout: float) -> bytes:
        waits = self._socket or self._server
        assert waits is not None
        if not select.select([waits], [], [], timeout)[0]:
            return b""
        if self._socket is None:
            assert self._server is not None
            self._use(self._server.accept()[0])
            return b""
        try:
            data = self._socket.recv(_MOST_READ)
        except BlockingIOError:
            return b""
        except OSError as error:
            data = b""
            self._lost(error.strerror)
        if not data and self._socket is not None:
            self._lost("the other end has closed the connection")
        return data

    def _lost(self, why: str | None) -> None:
        assert self._socket is not None
        self._socket.close()
        self._socket = None
        if not self._listens:
            raise LinkError(f"the connection {self._name} is lost: {why}; restart the autopilot")

    def close(self) -> None:
        for end in (self._socket, self._server):
            if end is not None:
                with suppress(OSError):
                    end.close()


_FORMS = (
    "mavlink://udp/127.0.0.1:14560?bind=127.0.0.1:14550, mavlink://tcp/127.0.0.1:5760, "
    "mavlink://listen/127.0.0.1:4560 or mavlink://serial//dev/ttyACM0?baud=921600"
)


def open_mavlink(
    text: str, kind: str, at: str, options: Mapping[str, str], remote: bool
) -> MavlinkLink:
    """Open the link of the URL ``text``, whose transport is ``kind``, with its peer at ``at``."""
    dialect()
    if kind == "udp":
        return MavlinkLink(text, _Datagrams(text, at, options, remote))
    if kind == "serial":
        return MavlinkLink(text, _Serial(text, at, options))
    if kind in ("tcp", "listen"):
        return MavlinkLink(text, _Tcp(text, at, options, remote, kind == "listen"))
    raise ScenarioError(f"{text}: MAVLink has no transport {kind!r}; write {_FORMS}")

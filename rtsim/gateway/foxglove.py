"""Server that shows a run in progress in Foxglove, with its components, timing and 3D scene.

Topics and fields have the same names as in a recording, so that one layout fits both. Times for
Foxglove are simulated times plus the wall-clock time of the start.

foxglove-sdk encodes the scene. ``ViewerServer`` serves viewers over WebSocket with the protocol
``foxglove.sdk.v1``. A viewer subscribes to channels. Each message is a binary frame. rtsim does not
use the server of foxglove-sdk, because that server does not check which page connects
(docs/decisions/045).
"""

from __future__ import annotations

import asyncio
import base64
import errno
import http
import json
import logging
import re
import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from foxglove import messages as fg
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.typing import Subprotocol

from rtsim.core.clock import civil, stopwatch
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.addresses import OriginCheck
from rtsim.gateway.publishing import COUNTS, SCENE, TIMING, SampledTopic, StateTable
from rtsim.gateway.shapes import (
    BodyTrail,
    Colours,
    PlacedBody,
    Points,
    Pose,
    ground_triangles,
    placed_bodies,
    triangles,
    world_over,
)
from rtsim.record.schema import TrackSpec, unique_message_types
from rtsim.scenario.body import Body, Ground

# The viewers' server.

PROTOCOL = "foxglove.sdk.v1"
MOST_WAITING = 1 << 18
"""Limit of the messages that wait for one viewer, bytes: some seconds at usual rates."""
MOST_VIEWERS = 16
_MOST_ASKED = 1 << 16
_BUFFER = 1 << 16
"""Size of each viewer's buffer in asyncio, and of the one in the operating system, bytes."""
_MESSAGE, _TIME = 1, 2
_MESSAGE_HEAD, _TIME_HEAD = struct.Struct("<BIQ"), struct.Struct("<BQ")
_ERROR = 2
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors of ``accept`` after which asyncio accepts no connection for a second."""


@dataclass
class MessageCounts:
    """Numbers of sent and lost messages, summed over all viewers."""

    sent: int = 0
    lost: int = 0


def is_message(payload: bytes | str) -> bool:
    """Return True if a payload is a channel's message, and not a time or a JSON text."""
    return isinstance(payload, bytes) and payload[0] == _MESSAGE


class OutgoingQueue:
    """The payloads that wait for one viewer. Beyond ``most`` bytes, the oldest are dropped.

    Texts, which describe channels and sessions, are never dropped.
    """

    def __init__(self, counts: MessageCounts, most: int = MOST_WAITING) -> None:
        self._counts, self._most = counts, most
        self._payloads: deque[bytes | str] = deque()
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._payloads)

    def add(self, payload: bytes | str) -> None:
        self._payloads.append(payload)
        self._size += len(payload) if isinstance(payload, bytes) else 0
        while self._size > self._most and self._drop():
            pass

    def _drop(self) -> bool:
        for k in range(len(self._payloads) - 1):
            payload = self._payloads[k]
            if isinstance(payload, bytes):
                del self._payloads[k]
                self._size -= len(payload)
                self._counts.lost += is_message(payload)
                return True
        return False

    def take(self) -> bytes | str:
        payload = self._payloads.popleft()
        self._size -= len(payload) if isinstance(payload, bytes) else 0
        return payload

    def discard(self) -> None:
        """Discard the remaining payloads, and count their messages as lost."""
        self._counts.lost += sum(map(is_message, self._payloads))
        self._payloads.clear()


@dataclass(frozen=True)
class Described:
    """Description of a channel for viewers; ``schema`` is a protobuf descriptor."""

    topic: str
    schema_name: str
    schema: bytes
    metadata: Mapping[str, str] = field(default_factory=dict)

    def to_plain(self, number: int) -> dict[str, Any]:
        return {
            "id": number, "topic": self.topic, "encoding": "protobuf",
            "schemaName": self.schema_name, "schemaEncoding": "protobuf",
            "schema": base64.b64encode(self.schema).decode(), "metadata": dict(self.metadata),
        }  # fmt: skip


class _Connection(ServerConnection):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        opening = [c for c in self.server.handlers if c.protocol.state is State.CONNECTING]
        if len(opening) >= MOST_VIEWERS:
            opening[0].transport.abort()
        super().connection_made(transport)


class _Viewer:
    def __init__(self, connection: ServerConnection, counts: MessageCounts) -> None:
        self.connection = connection
        self.subscribed: dict[int, int] = {}
        """Channel of each subscription, by the number that the viewer gave to the subscription."""
        self._counts, self._waiting = counts, OutgoingQueue(counts)
        self._more = asyncio.Event()
        self.idle = asyncio.Event()

    def put(self, payload: bytes | str) -> None:
        self._waiting.add(payload)
        self._more.set()
        self.idle.clear()

    async def send(self) -> None:
        payload: bytes | str = ""
        try:
            while True:
                while self._waiting:
                    payload = self._waiting.take()
                    await self.connection.send(payload)
                    self._counts.sent += is_message(payload)
                    payload = ""
                self.idle.set()
                await self._more.wait()
                self._more.clear()
        except ConnectionClosed:
            pass
        finally:
            self._counts.lost += is_message(payload)
            self._waiting.discard()
            self.idle.set()


class ViewerServer(threading.Thread):
    """Server for viewers that connect to ``listener``; ``origin_check`` can reject them.

    Add all channels before the start. :meth:`log` and :meth:`broadcast_time` never block.
    """

    def __init__(
        self, listener: socket.socket, name: str, origin_check: OriginCheck | None = None
    ) -> None:
        super().__init__(name="viewers", daemon=True)
        self.failure = ""
        """Why viewers are no longer served; empty if the server works or was closed."""
        self.counts = MessageCounts()
        self._listener, self._title = listener, name
        self._origin_check = origin_check or OriginCheck()
        self._channels: list[Described] = []
        self._viewers: list[_Viewer] = []
        self._subscribed: frozenset[int] = frozenset()
        """Channels with subscriptions. The set is replaced as a whole, for access by other threads.
        """
        self._session = civil()
        self._reported_no_room = False
        self._loop = asyncio.new_event_loop()
        self._closing, self._seconds = asyncio.Event(), 0.0

    # -- sending: methods for the thread that has the data

    def add(self, channel: Described) -> int:
        self._channels.append(channel)
        return len(self._channels)

    def wanted(self, channel: int) -> bool:
        return channel in self._subscribed

    def log(self, channel: int, payload: bytes, log_ns: int) -> None:
        """Send a message to the viewers that have subscribed to the channel."""
        self._call(self._log, channel, payload, log_ns)

    def broadcast_time(self, ns: int) -> None:
        self._call(self._to_all, _TIME_HEAD.pack(_TIME, max(0, ns)))

    def clear_session(self) -> None:
        """Start a new session, so that viewers discard their data."""
        self._session += 1
        self._call(self._to_all, self._hello())

    def close(self, seconds: float = 0.5) -> None:
        """Send the waiting messages within at most ``seconds``, then stop."""
        if self.is_alive():
            self._seconds = seconds
            self._call(self._closing.set)
            self.join()
        self._loop.close()
        self._listener.close()

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    # -- the thread

    def run(self) -> None:
        """Serve until :meth:`close`.

        Errors are only logged, because the run continues without viewers.
        """
        self._loop.set_exception_handler(self._on_error)
        with suppress(Exception), self._reported():
            self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        logger = logging.getLogger("rtsim.gateway.viewers")
        logger.setLevel(logging.CRITICAL)  # a connection that a viewer gives up is not an error
        async with serve(
            self._talk, sock=self._listener, process_request=self._check, logger=logger,
            subprotocols=[Subprotocol(PROTOCOL)], compression=None, server_header=None,
            max_size=_MOST_ASKED, write_limit=_BUFFER, ping_interval=None,
            create_connection=_Connection,
        ) as server:  # fmt: skip
            await self._closing.wait()
            # A viewer that does not read would never confirm the end of its connection.
            self._loop.call_later(0.0 if self.failure else self._seconds, _abort, server)
            for viewer in list(self._viewers):
                await viewer.idle.wait()

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except ConnectionClosed:
            raise
        except Exception as error:
            self._fail(error)
            raise

    def _fail(self, error: object) -> None:
        self.failure = f"no viewer is served any more: {type(error).__name__}: {error}"
        _report(self.failure)
        self._closing.set()

    def _on_error(self, _: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        error = context.get("exception", context["message"])
        if not isinstance(error, OSError):
            self._fail(error)
        elif error.errno in _NO_ROOM and not self._reported_no_room:
            self._reported_no_room = True
            _report(
                f"no further viewer can connect: {error.strerror}; close viewers, or raise the "
                "limit of open files (ulimit -n); rtsim tries again each second"
            )

    def _check(self, connection: ServerConnection, request: Request) -> Response | None:
        with self._reported():
            if why := self._origin_check.objection(request.headers.get_all("Origin")):
                return connection.respond(http.HTTPStatus.FORBIDDEN, f"rtsim: {why}\n")
            if len(connection.server.connections) >= MOST_VIEWERS:
                why = f"rtsim: {MOST_VIEWERS} viewers show this run already\n"
                return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, why)
        return None

    async def _talk(self, connection: ServerConnection) -> None:
        viewer = _Viewer(connection, self.counts)
        plain = [channel.to_plain(k + 1) for k, channel in enumerate(self._channels)]
        viewer.put(self._hello())
        viewer.put(json.dumps({"op": "advertise", "channels": plain}))
        sending = self._loop.create_task(viewer.send())
        self._viewers.append(viewer)
        try:
            with suppress(ConnectionClosed), self._reported():
                async for text in connection:
                    if wrong := self._obey(viewer, text):
                        said = {"op": "status", "level": _ERROR, "message": wrong}
                        await connection.send(json.dumps(said))
        finally:
            self._viewers.remove(viewer)
            self._count_subscriptions()
            sending.cancel()
            await asyncio.wait([sending])

    def _obey(self, viewer: _Viewer, text: str | bytes) -> str:
        try:
            if isinstance(text, bytes):
                raise ValueError("rtsim reads no binary messages")
            asked = json.loads(text)
            if asked["op"] == "subscribe":
                for one in asked["subscriptions"]:
                    self._subscribe(viewer, int(one["id"]), int(one["channelId"]))
            elif asked["op"] == "unsubscribe":
                for number in asked["subscriptionIds"]:
                    viewer.subscribed.pop(int(number), None)
            else:
                raise ValueError(f"rtsim has no {str(asked['op'])[:40]}")
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            return f"this message is not understood: {error}"[:200]
        finally:
            self._count_subscriptions()
        return ""

    def _subscribe(self, viewer: _Viewer, number: int, channel: int) -> None:
        if not (0 <= number < 1 << 32 and 0 < channel <= len(self._channels)):
            raise ValueError(f"unknown channel {channel}")
        if number not in viewer.subscribed and len(viewer.subscribed) >= len(self._channels):
            raise ValueError("the viewer subscribes to a channel twice")
        viewer.subscribed[number] = channel

    def _count_subscriptions(self) -> None:
        every = (viewer.subscribed.values() for viewer in self._viewers)
        self._subscribed = frozenset().union(*every)

    def _hello(self) -> str:
        return json.dumps(
            {
                "op": "serverInfo", "name": self._title, "capabilities": ["time"],
                "metadata": {}, "sessionId": str(self._session),
            }
        )  # fmt: skip

    def _log(self, channel: int, payload: bytes, log_ns: int) -> None:
        for viewer in self._viewers:
            for number, subscribed in viewer.subscribed.items():
                if subscribed == channel:
                    viewer.put(_MESSAGE_HEAD.pack(_MESSAGE, number, max(0, log_ns)) + payload)

    def _to_all(self, payload: bytes | str) -> None:
        for viewer in self._viewers:
            viewer.put(payload)


def _abort(server: Server) -> None:
    for connection in server.handlers:
        connection.transport.abort()


def _report(what: str) -> None:
    print(f"rtsim: --foxglove: {what}", file=sys.stderr, flush=True)


# Topics, and messages of the scene.

FRAMES, BODIES, GROUND = f"{SCENE}/frames", f"{SCENE}/bodies", f"{SCENE}/ground"
WORLD = "world"
_DRAWN_NS = NS_PER_S // 5
_GROUND_NS = 5 * NS_PER_S
_TRACK_COLOUR = fg.Color(r=0.1, g=0.6, b=1.0, a=1.0)


class Foxglove:
    """Server for Foxglove viewers that connect to the listening socket ``listener``."""

    name = "foxglove"

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._server: ViewerServer | None = None
        self._groups: dict[str, _Group] = {}
        self._scene: _Scene | None = None
        self._epoch_ns = 0

    def begin(self, run: Mapping[str, Any], topics: Sequence[SampledTopic]) -> None:
        self._epoch_ns = int(run.get("started_ns", 0))
        about = {"started_ns": str(self._epoch_ns), "scenario": str(run.get("scenario", ""))}
        specs = {t.name: _spec(t) for t in topics if t.names}
        types = unique_message_types(list(specs.values()))
        check = OriginCheck(map(str, run.get("origins", ())))
        server = self._server = ViewerServer(self._listener, f"rtsim: {about['scenario']}", check)
        for name, spec in specs.items():
            self._groups[name] = _Group(spec, types[name], about, server)
        bodies = [Body.from_plain(data) for data in run.get("scene", ())]
        if bodies and any(t.name == SCENE for t in topics):
            plain = run.get("shown", {}).get("ground")
            ground = None if plain is None else Ground.from_plain(plain)
            self._scene = _Scene(placed_bodies(bodies, run["signals"]), server, ground)
        server.start()

    def show(self, due: Sequence[SampledTopic], state: StateTable, values: Vector) -> None:
        assert self._server is not None
        at_ns = self._epoch_ns + state.ns
        self._server.broadcast_time(at_ns)
        for topic in due:
            if topic.name == SCENE:
                if self._scene is not None:
                    self._scene.show(values, at_ns)
            else:
                self._groups[topic.name].log(topic.row(state, values), at_ns)

    def rewound(self) -> None:
        """Start a new session, so that viewers discard data after the present time."""
        if self._server is not None:
            self._server.clear_session()
        if self._scene is not None:
            self._scene.clear()

    @property
    def counts(self) -> tuple[int, int]:
        if self._server is None:
            return 0, 0
        return self._server.counts.sent, self._server.counts.lost

    @property
    def failure(self) -> str:
        return "" if self._server is None else self._server.failure

    def close(self) -> None:
        with closing(self._listener):
            if self._server is not None:
                self._server.close()


class _Channel:
    def __init__(self, server: ViewerServer, described: Described) -> None:
        self._server, self._number = server, server.add(described)

    @property
    def wanted(self) -> bool:
        return self._server.wanted(self._number)

    def log(self, payload: bytes, at_ns: int) -> None:
        self._server.log(self._number, payload, at_ns)


class _Group:
    def __init__(
        self, spec: TrackSpec, message: str, about: Mapping[str, str], server: ViewerServer
    ) -> None:
        self._spec = spec
        self._row = np.zeros((1, spec.width), np.int64)
        metadata = {**about, "units": spec.metadata()["units"]}
        described = Described(spec.name, message, spec.descriptor(message), metadata)
        self._channel = _Channel(server, described)

    def log(self, row: Sequence[float], at_ns: int) -> None:
        if not self._channel.wanted:
            return
        whole = len(self._spec.integers)
        self._row[0, 1 : 1 + whole] = row[:whole]
        self._row[0, 1 + whole :] = np.array(row[whole:], np.float64).view(np.int64)
        self._channel.log(self._spec.encode(self._row), at_ns)


class _Scene:
    def __init__(
        self, bodies: Sequence[PlacedBody], server: ViewerServer, ground: Ground | None
    ) -> None:
        self._bodies = bodies
        self._world = world_over(ground)
        self._ground = [] if ground is None else [_triangles(*ground_triangles(ground.grid))]
        self._hills = None if ground is None else _typed(GROUND, fg.SceneUpdate, server)
        self._hills_ns = 0
        self._tracks = [BodyTrail(b.body.length) for b in bodies]
        self._shapes = [_triangles(*triangles(b.body.shape, b.body.length)) for b in bodies]
        self._frames = _typed(FRAMES, fg.FrameTransforms, server)
        self._drawing = _typed(BODIES, fg.SceneUpdate, server)
        self._fixes = [
            _typed(f"{SCENE}/{b.body.name}/location", fg.LocationFix, server) for b in bodies
        ]
        self._drawn_ns = 0

    def show(self, values: Vector, at_ns: int) -> None:
        stamp = fg.Timestamp(at_ns // NS_PER_S, at_ns % NS_PER_S)
        poses = [body.pose(values, self._world) for body in self._bodies]
        for track, pose in zip(self._tracks, poses, strict=True):
            if pose is not None:
                track.add(pose.position)
        if self._frames.wanted:
            moved = [
                _transform(b.body.name, pose, stamp)
                for b, pose in zip(self._bodies, poses, strict=True)
                if pose is not None
            ]
            self._frames.log(fg.FrameTransforms(transforms=moved).encode(), at_ns)
        for channel, pose in zip(self._fixes, poses, strict=True):
            if pose is not None and pose.location is not None and channel.wanted:
                channel.log(_fix(pose.location, stamp).encode(), at_ns)
        self._draw(poses, stamp, at_ns)
        self._draw_ground(stamp, at_ns)

    def _draw_ground(self, stamp: fg.Timestamp, at_ns: int) -> None:
        now = stopwatch()
        if self._hills is None or now < self._hills_ns or not self._hills.wanted:
            return
        self._hills_ns = now + _GROUND_NS
        entity = fg.SceneEntity(
            timestamp=stamp, frame_id=WORLD, id=GROUND, frame_locked=True, triangles=self._ground
        )
        self._hills.log(fg.SceneUpdate(entities=[entity]).encode(), at_ns)

    def _draw(self, poses: Sequence[Pose | None], stamp: fg.Timestamp, at_ns: int) -> None:
        now = stopwatch()
        if now < self._drawn_ns + _DRAWN_NS or not self._drawing.wanted:
            return
        self._drawn_ns = now
        entities = []
        for k, (body, pose) in enumerate(zip(self._bodies, poses, strict=True)):
            if pose is not None:
                points = self._tracks[k].points(pose.position)
                entities += [
                    _shape(body.body.name, self._shapes[k], stamp),
                    _track(body.body.name, points, stamp),
                ]
        self._drawing.log(fg.SceneUpdate(entities=entities).encode(), at_ns)

    def clear(self) -> None:
        for track in self._tracks:
            track.clear()


def _spec(topic: SampledTopic) -> TrackSpec:
    rows = zip(topic.names, topic.units, strict=True)
    columns = [Signal(re.sub(r"\W", "_", name), unit) for name, unit in rows]
    whole = len(COUNTS) if topic.name == TIMING else 0
    return TrackSpec(topic.name, topic.names[:whole], Signals(*columns[whole:]))


def _typed(topic: str, message: Any, server: ViewerServer) -> _Channel:
    schema = message.get_schema()
    return _Channel(server, Described(topic, schema.name, schema.data))


def _transform(name: str, pose: Pose, stamp: fg.Timestamp) -> fg.FrameTransform:
    x, y, z = map(float, pose.position)
    qx, qy, qz, qw = pose.rotation
    return fg.FrameTransform(
        timestamp=stamp, parent_frame_id=WORLD, child_frame_id=name,
        translation=fg.Vector3(x=x, y=y, z=z), rotation=fg.Quaternion(x=qx, y=qy, z=qz, w=qw),
    )  # fmt: skip


def _shape(name: str, drawn: fg.TriangleListPrimitive, stamp: fg.Timestamp) -> fg.SceneEntity:
    return fg.SceneEntity(
        timestamp=stamp, frame_id=name, id=f"{name}/shape", frame_locked=True, triangles=[drawn]
    )


def _triangles(corners: Points, colours: Colours) -> fg.TriangleListPrimitive:
    shades = [fg.Color(r=r, g=g, b=b, a=1.0) for r, g, b in (colours / 255.0).tolist()]
    each = [shade for shade in shades for _ in range(3)]
    return fg.TriangleListPrimitive(points=_points(corners.reshape(-1, 3)), colors=each)


def _track(name: str, points: Iterable[Any], stamp: fg.Timestamp) -> fg.SceneEntity:
    line = fg.LinePrimitive(
        type=fg.LinePrimitiveLineType.LineStrip, points=_points(points), thickness=2.0,
        scale_invariant=True, color=_TRACK_COLOUR,
    )  # fmt: skip
    return fg.SceneEntity(
        timestamp=stamp, frame_id=WORLD, id=f"{name}/track", frame_locked=True, lines=[line]
    )


def _points(points: Iterable[Any]) -> list[fg.Point3]:
    return [fg.Point3(x=float(x), y=float(y), z=float(z)) for x, y, z in points]


def _fix(location: tuple[float, float, float], stamp: fg.Timestamp) -> fg.LocationFix:
    latitude, longitude, altitude = location
    return fg.LocationFix(
        timestamp=stamp, latitude=float(np.degrees(latitude)), altitude=altitude,
        longitude=float(np.degrees(longitude)),
    )  # fmt: skip

"""Shows a live run in Foxglove: a channel per component, the run's timing, and a scene of bodies.

The topics and fields of a component are named as in a recording, so that one layout shows both.
``log_time`` is the wall-clock time at the run's start plus the simulated time.  foxglove-sdk
encodes the scene; :class:`ViewerServer` serves the viewers.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from foxglove import messages as fg

from rtsim.core.clock import stopwatch
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
from rtsim.gateway.viewer_server import Described, ViewerServer
from rtsim.record.schema import TrackSpec, unique_message_types
from rtsim.scenario.body import Body, Ground

FRAMES, BODIES, GROUND = f"{SCENE}/frames", f"{SCENE}/bodies", f"{SCENE}/ground"
WORLD = "world"
_DRAWN_NS = NS_PER_S // 5
_GROUND_NS = 5 * NS_PER_S
_TRACK_COLOUR = fg.Color(r=0.1, g=0.6, b=1.0, a=1.0)


class Foxglove:
    """Serves Foxglove viewers that connect to the listening socket ``listener``."""

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
        """Begin a new session, so that viewers discard the data after the present time."""
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
    """One topic of the server."""

    def __init__(self, server: ViewerServer, described: Described) -> None:
        self._server, self._number = server, server.add(described)

    @property
    def wanted(self) -> bool:
        """True if a viewer has subscribed to it."""
        return self._server.wanted(self._number)

    def log(self, payload: bytes, at_ns: int) -> None:
        self._server.log(self._number, payload, at_ns)


class _Group:
    """The Foxglove channel for one topic of numbers."""

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
    """The Foxglove channels of the scene: frames, shapes, tracks and locations of all bodies."""

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
        """Send the ground every few seconds, because a viewer can connect at any time."""
        now = stopwatch()
        if self._hills is None or now < self._hills_ns or not self._hills.wanted:
            return
        self._hills_ns = now + _GROUND_NS
        entity = fg.SceneEntity(
            timestamp=stamp, frame_id=WORLD, id=GROUND, frame_locked=True, triangles=self._ground
        )
        self._hills.log(fg.SceneUpdate(entities=[entity]).encode(), at_ns)

    def _draw(self, poses: Sequence[Pose | None], stamp: fg.Timestamp, at_ns: int) -> None:
        """Send all shapes and tracks a few times a second, also for viewers that connect late."""
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
    """Return the description of ``topic`` with the names that a recording uses."""
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
    """Return triangles ``corners`` (n, 3, 3), m, each with its colour (n, 3)."""
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

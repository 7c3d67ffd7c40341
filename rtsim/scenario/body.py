"""Bodies, meshes and terrain that viewers draw.

A body has a shape. Signals of the run give the position and the attitude of a body.
"""

from __future__ import annotations

import base64
import binascii
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.extras import extra

KINDS = ("grass", "field", "road", "runway", "water", "forest")
"""Kinds of ground cover; :attr:`GroundGrid.kind` contains indices into this tuple."""
GRASS, FIELD, ROAD, RUNWAY, WATER, FOREST = range(len(KINDS))
MOST_POINTS = 513
"""Largest number of grid points in each direction."""


@dataclass(frozen=True, eq=False)
class GroundGrid:
    """Terrain heights and kinds of ground on a grid to the north and east.

    Raises :class:`ScenarioError` for arrays of inconsistent shapes.

    Attributes:
        north: Coordinates of the grid points, m, shape (n,), increasing, spacing may vary.
        east: Coordinates of the grid points, m, shape (m,), increasing, spacing may vary.
        height: Height of each grid point, m, positive upwards, shape (n, m).
        kind: Ground cover of each cell, an index of :data:`KINDS`, shape (n - 1, m - 1). Cell ``[i,
            k]`` lies between ``north[i]`` and ``north[i + 1]``, and between ``east[k]`` and
            ``east[k + 1]``.

    Example:
        GroundGrid([0.0, 1000.0], [0.0, 1000.0], [[0.0, 5.0], [0.0, 9.0]], [[2]])
    """

    north: NDArray[np.float64]
    east: NDArray[np.float64]
    height: NDArray[np.float64]
    kind: NDArray[np.uint8]

    def __post_init__(self) -> None:
        north, east = (self._axis(name) for name in ("north", "east"))
        height = _array("height", self.height, np.float64, (north.size, east.size))
        kind = _array("kind", self.kind, np.int64, (north.size - 1, east.size - 1))
        if not np.isfinite(height).all():
            raise ScenarioError("ground: height has values that are not finite")
        if kind.min() < 0 or kind.max() >= len(KINDS):
            known = ", ".join(f"{k} {name}" for k, name in enumerate(KINDS))
            raise ScenarioError(
                f"ground: kind has values from {kind.min()} to {kind.max()}; give only the known "
                f"kinds: {known}"
            )
        for name, array in (("north", north), ("east", east), ("height", height),
                            ("kind", kind.astype(np.uint8))):  # fmt: skip
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def _axis(self, name: str) -> NDArray[np.float64]:
        try:
            axis = np.array(getattr(self, name), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ScenarioError(f"ground: {name} is not an array of numbers; {error}") from error
        if axis.ndim != 1 or not 2 <= axis.size <= MOST_POINTS:
            raise ScenarioError(
                f"ground: {name} has the shape {axis.shape}; expected one axis with 2 to "
                f"{MOST_POINTS} points"
            )
        if not np.isfinite(axis).all() or not (np.diff(axis) > 0.0).all():
            raise ScenarioError(f"ground: {name} must be finite and increase from point to point")
        return axis

    def to_plain(self) -> dict[str, Any]:
        """Return the grid as plain data; heights are rounded to 1 cm."""
        heights = np.round(self.height * _PER_M).astype("<i4")
        heights[:, 1:] = np.diff(heights, axis=1)  # neighbours differ little, which packs well
        return {
            "north": self.north.tolist(),
            "east": self.east.tolist(),
            "height": _packed(heights),
            "kind": _packed(self.kind),
        }

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> GroundGrid:
        """Return the grid from the data of ``to_plain``.

        Raises :class:`ScenarioError` for invalid data.
        """
        try:
            north, east = (np.array(data[name], np.float64) for name in ("north", "east"))
            if max(north.size, east.size) > MOST_POINTS:
                raise ValueError(f"{north.size} times {east.size} points")
            steps = _unpacked(data["height"], "<i4", (north.size, east.size))
            kind = _unpacked(data["kind"], "u1", (north.size - 1, east.size - 1))
        except (KeyError, TypeError, ValueError, zlib.error, binascii.Error) as error:
            raise ScenarioError(f"ground: the data is not a grid; {error!r}") from error
        return cls(north, east, np.cumsum(steps, axis=1) / _PER_M, kind)


@dataclass(frozen=True)
class Ground:
    """Terrain for viewers, and its position on the Earth.

    ``latitude`` and ``longitude`` (deg) are the position of the origin of ``grid``. Bodies with
    geodetic positions need both values. Height 0 of the grid is altitude 0. The ground outside the
    grid is flat, at height 0.

    Example:
        grid = GroundGrid([0.0, 1000.0], [0.0, 1000.0], [[0.0, 5.0], [0.0, 9.0]], [[2]])
        Ground(grid, latitude=36.0176, longitude=-75.6713)
    """

    grid: GroundGrid
    latitude: float | None = None
    longitude: float | None = None

    def __post_init__(self) -> None:
        if (self.latitude is None) != (self.longitude is None):
            raise ScenarioError("ground: give both latitude and longitude (deg), or neither")
        if self.latitude is not None and self.longitude is not None:
            inside = -90.0 <= self.latitude <= 90.0 and -360.0 <= self.longitude <= 360.0
            if not inside:  # also for NaN
                raise ScenarioError(
                    f"ground: latitude {self.latitude} or longitude {self.longitude} is out of "
                    "range; give a latitude from -90 to 90 deg and a longitude from -360 to 360 deg"
                )

    def added_to(self, presentation: Any) -> Any:
        """Raises ``ScenarioError`` for a second ground."""
        if presentation.ground is not None:
            raise ScenarioError("show(Ground(...)): the ground is declared twice; remove one")
        return replace(presentation, ground=self)

    def to_plain(self) -> dict[str, Any]:
        """Return the ground as plain data."""
        return {
            "grid": self.grid.to_plain(),
            "latitude": self.latitude,
            "longitude": self.longitude,
        }

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Ground:
        """Return the ground from the data of ``to_plain``.

        Raises :class:`ScenarioError` for invalid data.
        """
        try:
            at = [None if data.get(k) is None else float(data[k]) for k in _PLACE]
            return cls(GroundGrid.from_plain(data["grid"]), *at)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ScenarioError(f"the data is not a ground: {error!r}") from error


_PLACE = ("latitude", "longitude")
_PER_M = 100.0
"""In data for other processes, heights are whole numbers of 1/100 m."""


def _packed(array: NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(array.tobytes(), 6)).decode()


def _unpacked(text: str, kind: str, shape: tuple[int, int]) -> NDArray[Any]:
    size = shape[0] * shape[1] * np.dtype(kind).itemsize
    raw = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), size + 1)
    if len(raw) != size:
        raise ValueError(f"{len(raw)} bytes; expected {size}")
    return np.frombuffer(raw, kind).reshape(shape)


def _array(name: str, given: ArrayLike, kind: Any, shape: tuple[int, int]) -> NDArray[Any]:
    try:
        array = np.array(given, dtype=kind)
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"ground: {name} is not an array of numbers; {error}") from error
    if array.shape != shape:
        raise ScenarioError(f"ground: {name} has the shape {array.shape}; expected {shape}")
    return array


# Meshes of triangles from files (OBJ, glTF, STL, PLY), as the shapes of bodies.

MOST_TRIANGLES = 2000
"""Limit per mesh. With this limit, a window draws 60 pictures per second without a graphics card.
"""
SUFFIXES = (".obj", ".glb", ".gltf", ".stl", ".ply")
_LARGEST = 1e6
_MOST_BYTES = 64 << 20
_AXES = {f"{sign}{name}": (k, 1.0 if sign == "+" else -1.0)
         for sign in "+-" for k, name in enumerate("xyz")}  # fmt: skip
_GREY = (170, 176, 184)

Triangles = NDArray[np.float32]
Colours = NDArray[np.uint8]


class Mesh:
    """A triangle mesh from a file, which gives a body its shape.

    The origin of the mesh is the origin of the body. Raises ``ScenarioError`` for an unsuitable
    file.

    Args:
        file: An OBJ, glTF, STL or PLY file.
        forward: The file's forward axis: ``+x``, ``-x``, ``+y``, ``-y``, ``+z`` or ``-z``. The
            default is ``+z`` for glTF and ``+x`` for other formats.
        up: The file's upward axis. The default is ``+y`` for glTF and ``+z`` for other formats.
        scale: Length of one unit of the file, m.

    The attribute ``corners`` (n, 3, 3) contains the corners of the triangles in body axes (forward,
    right, down), m. The attribute ``colours``, shape (n, 3), contains the colours of the triangles
    (red, green, blue), 0 to 255.

    Example:
        rover = Mesh("rover.obj", forward="+x", up="+z", scale=0.001)
    """

    def __init__(
        self, file: str | Path, forward: str = "", up: str = "", scale: float = 1.0
    ) -> None:
        path = Path(file)
        gltf = path.suffix.lower() in (".glb", ".gltf")
        turn = _to_body(path, forward or ("+z" if gltf else "+x"), up or ("+y" if gltf else "+z"))
        if not 0.0 < scale < _LARGEST:
            raise ScenarioError(f"mesh {path}: scale {scale} is out of range; give m per unit > 0")
        try:
            status = path.stat()
        except OSError as error:
            raise ScenarioError(
                f"mesh {path} cannot be read: {error.strerror or error}; give the path of the file "
                "from the present folder, or write Path(__file__).parent / 'rover.obj'"
            ) from error
        corners, colours = _read(path, status.st_mtime_ns, status.st_size)
        self._set(str(path), (corners * scale) @ turn.T, colours)

    def _set(self, name: str, corners: Any, colours: Any) -> None:
        self.name = name
        self.corners: Triangles = np.ascontiguousarray(corners, dtype=np.float32)
        self.colours: Colours = np.ascontiguousarray(colours, dtype=np.uint8)
        if not (np.abs(self.corners) < _LARGEST).all():  # false also for NaN
            raise ScenarioError(
                f"mesh {name} has coordinates that are infinite, NaN, or at least {_LARGEST:g} m "
                "from the origin; give another scale"
            )
        for array in (self.corners, self.colours):
            array.flags.writeable = False

    @property
    def length(self) -> float:
        """Length in the forward direction, m."""
        span = np.ptp(self.corners.reshape(-1, 3), axis=0)
        return float(span[0] or span.max())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self._bytes == other._bytes

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __repr__(self) -> str:
        return f"<Mesh {self.name}: {len(self.corners)} triangles, {self.length:.3g} m long>"

    @property
    def _bytes(self) -> tuple[bytes, bytes]:
        return self.corners.tobytes(), self.colours.tobytes()

    def to_plain(self) -> dict[str, Any]:
        """Return the mesh as plain data."""
        packed = zlib.compress(b"".join(self._bytes), 6)
        return {
            "mesh": Path(self.name).name,
            "triangles": len(self.corners),
            "data": base64.b64encode(packed).decode(),
        }

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Mesh:
        """Return the mesh from the data of ``to_plain``.

        Raises :class:`ScenarioError` for invalid data.
        """
        self = cls.__new__(cls)
        try:
            count = int(data["triangles"])
            if not 1 <= count <= MOST_TRIANGLES:
                raise ValueError(f"{count} triangles")
            size = 36 * count  # three corners of three numbers of four bytes
            opener = zlib.decompressobj()
            raw = opener.decompress(base64.b64decode(data["data"], validate=True), size + 3 * count)
            if len(raw) != size + 3 * count:
                raise ValueError(f"{len(raw)} bytes for {count} triangles")
        except (KeyError, TypeError, ValueError, zlib.error, binascii.Error) as error:
            raise ScenarioError(f"the data is not a mesh: {error!r}") from error
        corners = np.frombuffer(raw[:size], np.float32).reshape(-1, 3, 3)
        colours = np.frombuffer(raw[size:], np.uint8).reshape(-1, 3)
        self._set(str(data.get("mesh", "")), corners, colours)
        return self


def _to_body(path: Path, forward: str, up: str) -> NDArray[np.float64]:
    for given in (forward, up):
        if given not in _AXES:
            raise ScenarioError(
                f"mesh {path}: axis {given!r} is unknown; give one of {', '.join(_AXES)}"
            )
    rows = np.zeros((3, 3))
    for row, (k, sign) in ((0, _AXES[forward]), (2, _AXES[up])):
        rows[row, k] = sign if row == 0 else -sign
    if _AXES[forward][0] == _AXES[up][0]:
        raise ScenarioError(
            f"mesh {path}: forward={forward!r} and up={up!r} are on one axis; give two axes"
        )
    rows[1] = np.cross(rows[2], rows[0])
    return rows


@lru_cache(maxsize=16)
def _read(path: Path, changed_ns: int, size: int) -> tuple[Triangles, Colours]:  # noqa: ARG001
    if path.suffix.lower() not in SUFFIXES:
        raise ScenarioError(
            f"mesh {path}: the format {path.suffix!r} is unknown; give a file {', '.join(SUFFIXES)}"
        )
    if size > _MOST_BYTES:
        raise ScenarioError(f"mesh {path} has {size} bytes; the limit is {_MOST_BYTES}")
    trimesh = extra("trimesh", "mesh", f"the mesh {path}")
    try:
        loaded = trimesh.load_scene(os.fspath(path))
        parts = [part for part in loaded.dump() if len(getattr(part, "faces", ()))]
    except Exception as error:  # a parser of another package can raise any error
        raise ScenarioError(
            f"mesh {path} cannot be read: {type(error).__name__}: {error}"
        ) from error
    count = sum(len(part.faces) for part in parts)
    if not 1 <= count <= MOST_TRIANGLES:
        raise ScenarioError(
            f"mesh {path} has {count} triangles; expected 1 to {MOST_TRIANGLES}. Reduce it in the "
            "program that made it, for example with Decimate in Blender"
        )
    corners = np.concatenate([np.asarray(part.triangles, np.float32) for part in parts])
    colours = np.concatenate([_colours(part) for part in parts])
    return corners, colours


def _colours(part: Any) -> Colours:
    many = len(part.faces)
    visual = part.visual
    try:
        if visual.kind in ("face", "vertex"):
            return np.asarray(visual.face_colors, np.uint8)[:, :3]
        if visual.kind == "texture":
            colour = np.asarray(visual.material.main_color, np.uint8)[:3]
            return np.broadcast_to(colour, (many, 3))
    except (AttributeError, TypeError, ValueError, ImportError):  # textures need another package
        pass
    return np.broadcast_to(np.array(_GREY, np.uint8), (many, 3))


SHAPES: Mapping[str, float] = {"aircraft": 10.0, "box": 10.0, "car": 4.5, "quadcopter": 0.5}
"""Names of the built-in shapes and their usual lengths, m."""

_LENGTHS = {"m": 1.0, "km": 1000.0, "ft": 0.3048}
_ANGLES = {"rad": 1.0, "deg": math.pi / 180.0}
_PLAIN = {"1": 1.0, "": 1.0}
_UNITS: Mapping[str, tuple[Mapping[str, float], ...]] = {
    "geodetic": (_ANGLES, _ANGLES, _LENGTHS),
    "north_east_down": (_LENGTHS,) * 3,
    "euler": (_ANGLES,) * 3,
    "quaternion": (_PLAIN,) * 4,
}
"""Allowed units of each element of a field, and their factors to m, rad or 1."""

Place = str | float
"""A signal ``"component.signal"``, a negated signal ``"-component.signal"``, or a number."""


@dataclass(frozen=True)
class Body:
    """A rigid body that viewers draw. Signals give its position and attitude.

    An element of a position or attitude is a signal (``"component.signal"``), a negated signal
    (``"-drone.height"``), or a number in m or rad. Signals can have the units m, km, ft, rad and
    deg. Give one position and one attitude:

    - ``geodetic``: latitude, longitude, altitude.
    - ``north_east_down``: three distances from a local origin.
    - ``euler`` contains roll, pitch and yaw from north-east-down axes to body axes (forward, right,
      down).
    - ``quaternion`` contains the same rotation as a quaternion, scalar first.

    ``shape`` is ``aircraft``, ``box``, ``car``, ``quadcopter`` or a :class:`Mesh`. ``length`` is in
    m; 0 means the usual length of the shape or the length of the mesh. The origin of a car is on
    the ground below its middle. The origin of any other shape of rtsim is in its middle.

    Example:
        Body("plane", geodetic=("f16.latitude", "f16.longitude", "f16.altitude"),
             euler=("f16.roll", "f16.pitch", "f16.yaw"), shape="aircraft", length=15.0)
        Body("car", north_east_down=("car.x", "car.y", 0.0), euler=(0.0, 0.0, "car.yaw"),
             shape="car")
    """

    name: str
    geodetic: tuple[Place, ...] = ()
    north_east_down: tuple[Place, ...] = ()
    euler: tuple[Place, ...] = ()
    quaternion: tuple[Place, ...] = ()
    shape: str | Mesh = "box"
    length: float = 0.0

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ScenarioError(f"body {self.name!r} is not an identifier; use letters, digits, _")
        if not isinstance(self.shape, Mesh) and self.shape not in SHAPES:
            raise UnknownName("shape", str(self.shape), SHAPES, f"body {self.name}")
        if self.length == 0.0:
            usual = self.shape.length if isinstance(self.shape, Mesh) else SHAPES[self.shape]
            object.__setattr__(self, "length", usual)
        if not 0.0 < self.length < 1e6:
            raise ScenarioError(
                f"body {self.name}: length {self.length} m must be between 0 and 1e6 m"
            )
        self._one_of("position", geodetic=3, north_east_down=3)
        self._one_of("attitude", euler=3, quaternion=4)
        for name in _UNITS:
            object.__setattr__(self, name, tuple(map(self._place, getattr(self, name))))

    def _place(self, given: object) -> Place:
        if isinstance(given, str):
            return given
        if isinstance(given, int | float) and math.isfinite(given):
            return float(given)
        raise ScenarioError(
            f"body {self.name}: {given!r} gives no position or attitude; write 'component.signal', "
            "'-component.signal' or a finite number"
        )

    def added_to(self, presentation: Any) -> Any:
        return replace(presentation, bodies=(*presentation.bodies, self))

    def _one_of(self, what: str, **sizes: int) -> None:
        given = {name: len(getattr(self, name)) for name in sizes if getattr(self, name)}
        wanted = " or ".join(f"{name}= with {size} signals" for name, size in sizes.items())
        if len(given) != 1 or any(sizes[name] != size for name, size in given.items()):
            raise ScenarioError(
                f"body {self.name}: {what} is missing or given twice; give {wanted}"
            )

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the signals of position and attitude."""
        given = (place for name in _UNITS for place in getattr(self, name))
        return tuple(dict.fromkeys(p.removeprefix("-") for p in given if isinstance(p, str)))

    @property
    def where(self) -> str:
        """Name of the field that contains the position."""
        return "geodetic" if self.geodetic else "north_east_down"

    @property
    def turned(self) -> str:
        """Name of the field that contains the attitude: ``euler`` or ``quaternion``."""
        return "euler" if self.euler else "quaternion"

    def terms(self, field: str, units: Mapping[str, str]) -> Iterator[tuple[str, float]]:
        """Yield the signal and the conversion factor of each element of ``field``.

        The factor converts the signal to m, rad or 1. A number has an empty signal name, and the
        factor is the number. ``units`` contains the units of all signals. Raises
        :class:`ScenarioError` for an unknown signal or an unsuitable unit.
        """
        for place, known in zip(getattr(self, field), _UNITS[field], strict=True):
            if not isinstance(place, str):
                yield "", place
                continue
            name = place.removeprefix("-")
            if name not in units:
                raise UnknownName("signal", name, units, f"body {self.name}")
            if units[name] not in known:
                wanted = ", ".join(k for k in known if k)
                raise ScenarioError(
                    f"body {self.name}: signal {name} has the unit [{units[name]}]; expected one "
                    f"of {wanted}"
                )
            yield name, known[units[name]] * (-1.0 if place.startswith("-") else 1.0)

    def check(self, units: Mapping[str, str]) -> None:
        """Raise :class:`ScenarioError` if a signal is unknown or its unit is unsuitable."""
        for field in (self.where, self.turned):
            for _ in self.terms(field, units):
                pass

    def to_plain(self) -> dict[str, Any]:
        """Return the body as plain data."""
        shape = self.shape if isinstance(self.shape, str) else self.shape.to_plain()
        plain = asdict(replace(self, shape="box"))
        return {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()} | {
            "shape": shape
        }

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Body:
        """Return the body from the data of ``to_plain``.

        Raises :class:`ScenarioError` for invalid data.
        """
        given: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        if isinstance(given.get("shape"), Mapping):
            given["shape"] = Mesh.from_plain(given["shape"])
        return cls(**given)

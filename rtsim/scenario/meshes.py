"""Meshes of triangles from files (OBJ, glTF, STL, PLY), as the shapes of bodies.

A mesh is read once, by trimesh, when the scenario is made.  Viewers in other processes, viewers on
other machines and recordings receive its triangles, and never its file.
"""

from __future__ import annotations

import base64
import binascii
import os
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.core.extras import extra

MOST_TRIANGLES = 2000
"""A window without a graphics card draws this number in 60 pictures per second."""
SUFFIXES = (".obj", ".glb", ".gltf", ".stl", ".ply")
_LARGEST = 1e6
"""Limit of coordinates, m."""
_MOST_BYTES = 64 << 20
"""Limit of the size of a file."""
_AXES = {f"{sign}{name}": (k, 1.0 if sign == "+" else -1.0)
         for sign in "+-" for k, name in enumerate("xyz")}  # fmt: skip
_GREY = (170, 176, 184)

Triangles = NDArray[np.float32]
Colours = NDArray[np.uint8]


class Mesh:
    """The triangles of a file, for ``Body(shape=Mesh("rover.obj"))``.

    ``forward`` and ``up`` are the file's axes that point forward and up: ``+x``, ``-x``, ``+y``,
    ``-y``, ``+z`` or ``-z``.  Without them, they are those of the format: +z and +y for glTF, and
    +x and +z for other formats.  ``scale`` is the length of the file's unit, m.  The file's origin
    becomes the origin of the body.  Raises :class:`ScenarioError` for a file that cannot be used.

    Attributes: ``corners`` (n, 3, 3) are the corners of the triangles in body axes (forward, right,
    down), m; ``colours`` (n, 3) are their colours, red, green and blue, 0 to 255.

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
                f"mesh {name} has coordinates that are not finite or beyond {_LARGEST:g} m; give "
                "another scale"
            )
        for array in (self.corners, self.colours):
            array.flags.writeable = False

    @property
    def length(self) -> float:
        """The length along the forward axis, or the largest extent if that length is 0, m."""
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
        """Return the mesh as plain data, for another process."""
        packed = zlib.compress(b"".join(self._bytes), 6)
        return {
            "mesh": Path(self.name).name,
            "triangles": len(self.corners),
            "data": base64.b64encode(packed).decode(),
        }

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Mesh:
        """Return the mesh from the output of :meth:`to_plain`; raises :class:`ScenarioError`."""
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
    """Return the matrix (3, 3) from the file's axes to body axes (forward, right, down)."""
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
    """Return the triangles (n, 3, 3) of a file and their colours (n, 3), in the file's axes."""
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
    """Return the colour (n, 3) of each triangle: its own, or else that of the material."""
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

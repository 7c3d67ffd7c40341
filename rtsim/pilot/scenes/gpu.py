"""Draw the world by the graphics processor (OpenGL 3.3), into a pygame surface.

The picture is drawn into memory of the graphics processor and then copied into the surface, so that
the window needs no OpenGL itself, and symbols and texts are drawn over the world as in any scene.
"""

from __future__ import annotations

import math
import os
import sys
import weakref
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pygame
from numpy.typing import NDArray

from rtsim.core.errors import RtsimError
from rtsim.core.signals import Vector
from rtsim.pilot.scenes.camera import Camera, Points
from rtsim.pilot.scenes.world import DrawnSolid, Placement, Relief, Stroke, WorldPicture

CHOICE = "RTSIM_PICTURE"
"""Environment variable that selects how the world is drawn: one of :data:`CHOICES`."""
AUTO, OPENGL, SOFTWARE = CHOICES = ("auto", "opengl", "software")
"""``auto`` uses OpenGL only with a graphics processor, because the simulation needs the CPU."""
_SOFTWARE = ("llvmpipe", "softpipe", "swrast")
_BODY, _RELIEF, _MARK, _LINE, _SHADOW = range(5)
_TILE = 65536.0
_CREASE = np.cos(np.radians(38.0))
_LIFT = 2e-5
_IDENTITY = np.eye(3)
_HAZE = (0.86, 0.52, 0.34), (0.72, 0.80, 0.88), (0.035, 0.045, 0.075)
_ZENITH = (0.12, 0.17, 0.36), (0.16, 0.36, 0.66), (0.008, 0.012, 0.03)
"""Colours of the horizon and of the zenith at dusk, by day and at night: red, green and blue."""


_SHADERS = {
    path.name: path.read_text("utf-8")
    for path in (files("rtsim.pilot.scenes") / "shaders").iterdir()
}


class NoGraphics(RtsimError):
    """The graphics processor cannot be used. The message is the reason, with the remedy."""


@cache
def graphics() -> Graphics | str:
    """Return the graphics processor of this process, or the reason why it is not used."""
    choice = os.environ.get(CHOICE) or AUTO
    if choice not in CHOICES:
        return f"{CHOICE} is {choice!r}; give one of {', '.join(CHOICES)}"
    if choice == SOFTWARE:
        return f"{CHOICE} is {SOFTWARE}"
    try:
        found = Graphics()
    except NoGraphics as error:
        return str(error)
    except Exception as error:  # each driver has its own errors
        return f"OpenGL fails: {error}; update the graphics driver"
    if found.software and choice == AUTO:
        return (
            f"the OpenGL driver {found.name} computes on the CPU, which the simulation needs; "
            f"{CHOICE}={OPENGL} uses it nevertheless"
        )
    return found


def draw_world(surface: pygame.Surface, picture: WorldPicture) -> None:
    """Draw ``picture`` by the graphics processor, or in software if none can be used.

    After a failure of the graphics processor, all further pictures are drawn in software.
    """
    processor = graphics()
    if isinstance(processor, Graphics) and not processor.failure:
        try:
            processor.draw(surface, picture)
        except Exception as error:  # moderngl.Error; each driver has its own errors
            processor.failure = (
                f"OpenGL failed during the run ({processor.name}: {error}); update the graphics "
                f"driver, or set {CHOICE}={SOFTWARE}"
            )
        else:
            return
    picture.draw_in_software(surface)


def remark() -> str:
    """Return why the picture is simple, or "" if OpenGL draws or the user chose otherwise."""
    found = graphics()
    why = found.failure if isinstance(found, Graphics) else found
    return f"simple picture: {why}" if why and os.environ.get(CHOICE) != SOFTWARE else ""


class Graphics:
    """An OpenGL context with the shaders of the world. Raises :class:`NoGraphics`."""

    def __init__(self) -> None:
        self._context = _context()
        self.name = str(self._context.info["GL_RENDERER"])
        self.software = self.name.startswith(_SOFTWARE)
        """True if a program on the central processor draws, as on a machine without a GPU."""
        self.failure = ""
        """The reason why this processor draws no more pictures, or empty."""
        self._far = self._program("far.vert", "far.frag")
        self._near = self._program("near.vert", "near.frag")
        self._screen = self._context.vertex_array(self._far, [])
        self._target: _Target | None = None
        self._solids: weakref.WeakKeyDictionary[DrawnSolid, Any] = weakref.WeakKeyDictionary()
        self._set(self._far, "layers", 3 if self.software else 14)

    def draw(self, surface: pygame.Surface, picture: WorldPicture) -> None:
        """Draw ``picture`` over the whole ``surface``.

        Raises :class:`NoGraphics` if the driver reports an error, such as a lack of memory.
        """
        if 0 in surface.get_size():
            return
        camera = picture.camera
        target = self._target_of(surface.get_size())
        target.use()
        self._view(picture)
        gl = self._context
        gl.disable(gl.DEPTH_TEST | gl.BLEND)
        self._screen.render(gl.TRIANGLES, vertices=3)
        gl.enable(gl.DEPTH_TEST)
        if isinstance(picture.ground, Relief):
            corners, colours = picture.ground.around(camera, 3)
            self._stream(_quads(corners - camera.position, colours), _RELIEF)
        if picture.runway is not None:
            corners, paint = picture.runway.areas
            gl.disable(gl.DEPTH_TEST)
            self._stream(_quads(corners - camera.position, paint), _MARK)
            gl.enable(gl.DEPTH_TEST)
        gl.enable(gl.BLEND)
        for shape, at, down in picture.shadows:
            self._set(self._near, "shadow", down - camera.position[2])
            self._solid(camera, shape, at, _SHADOW)
        gl.disable(gl.BLEND)
        for ends, strokes in picture.lines:
            self._stream(_ribbons(camera, ends, strokes), _LINE)
        for shape, at in picture.bodies:
            self._solid(camera, shape, at, _BODY)
        image = target.read()
        if (error := gl.error) != "GL_NO_ERROR":
            raise NoGraphics(error)
        surface.blit(image, (0, 0))

    def _view(self, picture: WorldPicture) -> None:
        camera = picture.camera
        high = picture.ground_down - float(camera.position[2])
        tangent = np.tan(0.5 * camera.field)
        tile = np.floor(camera.position[:2] / _TILE)
        inside = camera.position[:2] - _TILE * tile
        for program in (self._far, self._near):
            self._set(program, "axes", _rows(camera.axes))
            self._set(program, "tangents", (tangent, tangent * camera.height / camera.width))
            self._set(program, "sun", tuple(picture.sun))
            self._set(program, "height", max(high, 0.3))
            self._set(program, "tile", tuple(tile.astype(int).tolist()))
            self._set(program, "inside", tuple(inside.tolist()))
        self._light(picture.sun, high)
        self._set(self._far, "pixel", 2.0 * tangent / camera.width)
        self._set(self._far, "open", not isinstance(picture.ground, Relief))

    def _light(self, sun: Vector, high: float) -> None:
        for name, value in light_of(float(-sun[2]), high).items():
            for program in (self._far, self._near):
                self._set(program, name, value)

    def _solid(self, camera: Camera, shape: DrawnSolid, at: Placement, style: int) -> None:
        if shape not in self._solids:
            buffer = self._context.buffer(_smooth(*shape.solid.triangles()).tobytes())
            self._solids[shape] = self._array(buffer)
        self._style(style, at.axes, at.place - camera.position)
        self._solids[shape].render(self._context.TRIANGLES)

    def _stream(self, corners: NDArray[np.float32], style: int) -> None:
        if not corners.size:
            return
        self._style(style, _IDENTITY, np.zeros(3))
        buffer = self._context.buffer(corners.tobytes())
        array = self._array(buffer)
        array.render(self._context.TRIANGLES)
        array.release()
        buffer.release()

    def _style(self, style: int, turn: Points, place: Points) -> None:
        self._set(self._near, "style", style)
        self._set(self._near, "projected", style == _SHADOW)
        self._set(self._near, "lift", _LIFT if style in (_MARK, _SHADOW) else 0.0)
        self._set(self._near, "turn", _rows(turn))
        self._set(self._near, "place", tuple(place.tolist()))

    def _array(self, buffer: Any) -> Any:
        parts = "3f 3f 4f"
        return self._context.vertex_array(
            self._near, [(buffer, parts, "corner", "normal", "paint")]
        )

    def _program(self, vertex: str, fragment: str) -> Any:
        sources = [
            f"#version 330 core\n{define}\n{_SHADERS['common.glsl']}{_SHADERS[name]}"
            for name, define in ((vertex, ""), (fragment, "#define FRAGMENT"))
        ]
        try:
            return self._context.program(vertex_shader=sources[0], fragment_shader=sources[1])
        except Exception as error:  # moderngl.Error; each driver has its own text
            raise NoGraphics(
                f"the graphics driver {self.name} does not compile {fragment}: {error}; update the "
                f"driver, or set {CHOICE}={SOFTWARE}"
            ) from error

    @staticmethod
    def _set(program: Any, name: str, value: Any) -> None:
        if name in program:  # a compiler removes what a shader does not use
            program[name] = value

    def _target_of(self, size: tuple[int, int]) -> _Target:
        if self._target is None or self._target.size != size:
            before, samples = self._target, 0 if self.software else 4
            self._target = _Target(self._context, size, samples)
            if before is not None:  # released last, because moderngl binds it again until then
                before.release()
        return self._target


class _Target:
    """Memory of a picture, with ``samples`` of each pixel against steps at edges."""

    def __init__(self, context: Any, size: tuple[int, int], samples: int) -> None:
        self.size, self._context = size, context
        samples = min(samples, context.max_samples)
        self._drawn = self._shown = context.framebuffer(
            context.renderbuffer(size, 4, samples=samples),
            context.depth_renderbuffer(size, samples=samples),
        )
        if samples:
            self._shown = context.framebuffer(context.renderbuffer(size, 4))
        self._pixels = bytearray(4 * size[0] * size[1])
        self._image = pygame.image.frombuffer(self._pixels, size, "BGRA")
        self._image.set_alpha(None)

    def use(self) -> None:
        self._drawn.use()
        self._drawn.clear()

    def read(self) -> pygame.Surface:
        if self._shown is not self._drawn:
            self._context.copy_framebuffer(self._shown, self._drawn)
        self._shown.read_into(self._pixels, components=4)
        return self._image

    def release(self) -> None:
        for framebuffer in {self._drawn, self._shown}:
            framebuffer.release()


def _context() -> Any:
    try:
        import moderngl
    except ImportError as error:
        raise NoGraphics(
            f"moderngl is not installed ({error}); type: pip install 'rtsim[pilot]'"
        ) from error
    ways: list[dict[str, Any]] = [{"backend": "egl"}, {}] if sys.platform == "linux" else [{}]
    why = ""
    for way in ways:
        try:
            context = moderngl.create_context(standalone=True, require=330, **way)
        except Exception as error:  # each platform has its own errors
            why = f"{why}; {error}" if why else str(error)
            continue
        context.gc_mode = "auto"
        return context
    raise NoGraphics(
        f"OpenGL 3.3 cannot be used: {why}. Install a graphics driver; on Debian and Ubuntu: "
        "apt-get install libegl1 libgl1-mesa-dri"
    )


def light_of(sine: float, height: float) -> dict[str, Any]:
    """Return the colours of sun, sky and haze as uniforms of the shaders.

    ``sine`` is the sine of the sun's elevation, and ``height`` the height above the ground, m.
    """
    day = _step(-0.12, 0.18, sine)
    dusk = _step(-0.22, -0.02, sine) * (1.0 - _step(0.05, 0.30, sine))
    low, high, night = _HAZE
    away = _mix(_mix(night, high, day), low, 0.35 * dusk)
    top = _mix(_mix(_ZENITH[2], _ZENITH[1], day), _ZENITH[0], 0.7 * dusk)
    thin = math.exp(-max(height, 0.0) / 12000.0)  # the sky is darker from high above
    sun = _mix((1.0, 0.58, 0.32), (1.0, 0.97, 0.90), _step(0.0, 0.35, sine))
    return {
        "daylight": day,
        "sunlight": tuple(_step(-0.06, 0.12, sine) * np.array(sun)),
        "ambient": _mix((0.035, 0.045, 0.08), (0.42, 0.47, 0.54), day),
        "zenith": tuple((0.35 + 0.65 * thin) * np.array(top)),
        "haze_away": away,
        "haze_facing": _mix(away, low, 0.9 * dusk),
    }


def _step(low: float, high: float, at: float) -> float:
    share = min(max((at - low) / (high - low), 0.0), 1.0)
    return share * share * (3.0 - 2.0 * share)


def _mix(a: Sequence[float], b: Sequence[float], share: float) -> tuple[float, ...]:
    return tuple(x + share * (y - x) for x, y in zip(a, b, strict=True))


def _rows(matrix: Points) -> tuple[float, ...]:
    """Return a matrix in the order of OpenGL, in which columns follow each other."""
    return tuple(np.asarray(matrix).T.ravel().tolist())


def _quads(corners: Points, colours: Any) -> NDArray[np.float32]:
    """Return the vertices of quadrangles (n, 4, 3) with colours (n, 3), as two triangles each."""
    across = np.cross(corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1])
    normal = across / np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-12)
    out = np.ones((len(corners), 6, 10), np.float32)
    out[..., :3] = corners[:, (0, 1, 2, 0, 2, 3)]
    out[..., 3:6] = normal[:, np.newaxis]
    out[..., 6:9] = np.asarray(colours, np.float32)[:, np.newaxis] / 255.0
    return out


def _smooth(corners: Points, colours: Any) -> NDArray[np.float32]:
    """Return the vertices of triangles (n, 3, 3), with normals that hide edges below 38 deg."""
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    flat = across / np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-12)
    size = max(float(np.abs(corners).max()), 1e-9)
    keys = np.round(corners.reshape(-1, 3) / size, 5)
    _, which = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    edges = np.flatnonzero(np.diff(which.ravel()[order])) + 1
    normals = np.empty((len(keys), 3))
    for group in np.split(order, edges):
        own, weighted = flat[group // 3], across[group // 3]
        close = own @ own.T > _CREASE
        normals[group] = close @ weighted
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    out = np.ones((len(corners), 3, 10), np.float32)
    out[..., :3] = corners
    out[..., 3:6] = normals.reshape(-1, 3, 3)
    out[..., 6:9] = np.asarray(colours, np.float32)[:, np.newaxis] / 255.0
    return out


def _ribbons(camera: Camera, ends: Points, strokes: Sequence[Stroke]) -> NDArray[np.float32]:
    """Return the vertices of lines (k, 2, 3) with a thickness in pixels, facing the camera."""
    seen = camera.seen(ends)
    kept = seen[..., 0].max(axis=1) > camera.near
    seen, ends = seen[kept], (ends - camera.position)[kept]
    depth = seen[..., :1]
    thick = np.array([width for _, width in strokes], float)[kept]
    colours = np.array([colour for colour, _ in strokes], float).reshape(-1, 3)[kept]
    along = ends[:, 1] - ends[:, 0]
    side = np.cross(along, 0.5 * (ends[:, 0] + ends[:, 1]))
    side /= np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-12)
    half = 0.5 * thick[:, np.newaxis, np.newaxis] * np.maximum(depth, camera.near) / camera.focal
    moved = side[:, np.newaxis] * half
    quads = np.stack([ends[:, 0] - moved[:, 0], ends[:, 0] + moved[:, 0],
                      ends[:, 1] + moved[:, 1], ends[:, 1] - moved[:, 1]], axis=1)  # fmt: skip
    return _quads(quads, colours)

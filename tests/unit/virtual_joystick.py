"""A joystick without a kernel device: SDL's own virtual one, from the library in pygame's wheel."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pygame

GAMEPAD, FLIGHT_STICK = 1, 4
_PATTERNS = (
    "pygame.libs/libSDL2-2*",
    "pygame_ce.libs/libSDL2-2*",
    "pygame/.dylibs/libSDL2-2*",
    "pygame/SDL2.dll",
)


def library() -> ctypes.CDLL:
    """The SDL that pygame itself has loaded."""
    site = Path(str(pygame.__file__)).resolve().parents[1]
    for pattern in _PATTERNS:
        for path in site.glob(pattern):
            return ctypes.CDLL(str(path))
    raise FileNotFoundError(f"no SDL beside pygame in {site}")


class VirtualJoystick:
    """Plugged in when made; :meth:`unplug` it, move its axes (-1 to 1)."""

    def __init__(self, axes: int = 4, buttons: int = 4, type_: int = FLIGHT_STICK) -> None:
        self._sdl = library()
        self._sdl.SDL_JoystickOpen.restype = ctypes.c_void_p
        self._sdl.SDL_JoystickSetVirtualAxis.argtypes = (
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_int16,
        )
        self._sdl.SDL_JoystickClose.argtypes = (ctypes.c_void_p,)
        self._sdl.SDL_JoystickInstanceID.argtypes = (ctypes.c_void_p,)
        index = self._sdl.SDL_JoystickAttachVirtual(type_, axes, buttons, 0)
        if index < 0:
            raise OSError("SDL attached no virtual joystick")
        self._handle = self._sdl.SDL_JoystickOpen(index)
        self.number = self._sdl.SDL_JoystickInstanceID(self._handle)

    def move(self, axis: int, position: float) -> None:
        scaled = ctypes.c_int16(round(position * 32767))
        assert self._sdl.SDL_JoystickSetVirtualAxis(self._handle, axis, scaled) == 0

    def unplug(self) -> None:
        count = self._sdl.SDL_NumJoysticks()
        for index in range(count):
            if self._sdl.SDL_JoystickGetDeviceInstanceID(index) == self.number:
                assert self._sdl.SDL_JoystickDetachVirtual(index) == 0
                return
        raise OSError("it is not plugged in")

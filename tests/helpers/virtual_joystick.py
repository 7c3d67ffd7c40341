"""A joystick without a kernel device: SDL's own virtual one, from the library in pygame's wheel."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pygame

GAMEPAD, FLIGHT_STICK = 1, 4
HAT_UP, HAT_RIGHT, HAT_DOWN, HAT_LEFT = 1, 2, 4, 8
_PATTERNS = (
    "pygame.libs/libSDL2-2*",
    "pygame_ce.libs/libSDL2-2*",
    "pygame/.dylibs/libSDL2-2*",
    "pygame/SDL2.dll",
)
_Rumble = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint16, ctypes.c_uint16)
_VERSION = 1
_ATTACHED: list[ctypes.Structure] = []
"""SDL goes on to call them, also of a stick that a failing test did not unplug."""


class _Description(ctypes.Structure):
    """SDL_VirtualJoystickDesc of SDL 2.24 and later (SDL_joystick.h)."""

    _fields_ = (
        ("version", ctypes.c_uint16), ("type", ctypes.c_uint16), ("naxes", ctypes.c_uint16),
        ("nbuttons", ctypes.c_uint16), ("nhats", ctypes.c_uint16), ("vendor_id", ctypes.c_uint16),
        ("product_id", ctypes.c_uint16), ("padding", ctypes.c_uint16),
        ("button_mask", ctypes.c_uint32), ("axis_mask", ctypes.c_uint32),
        ("name", ctypes.c_char_p), ("userdata", ctypes.c_void_p), ("Update", ctypes.c_void_p),
        ("SetPlayerIndex", ctypes.c_void_p), ("Rumble", _Rumble),
        ("RumbleTriggers", ctypes.c_void_p), ("SetLED", ctypes.c_void_p),
        ("SendEffect", ctypes.c_void_p),
    )  # fmt: skip


def library() -> ctypes.CDLL:
    """The SDL that pygame itself has loaded."""
    site = Path(str(pygame.__file__)).resolve().parents[1]
    for pattern in _PATTERNS:
        for path in site.glob(pattern):
            return ctypes.CDLL(str(path))
    raise FileNotFoundError(f"no SDL beside pygame in {site}")


class VirtualJoystick:
    """Plugged in when made; :meth:`unplug` it, move its axes (-1 to 1), press it, and feel it."""

    def __init__(
        self,
        axes: int = 4,
        buttons: int = 4,
        type_: int = FLIGHT_STICK,
        *,
        hats: int = 0,
        name: str = "",
        rumbles: bool = False,
    ) -> None:
        self.felt: list[tuple[float, float]] = []
        """What its motors were told, heavy and light, 0 to 1."""
        self._sdl = sdl = library()
        sdl.SDL_JoystickOpen.restype = ctypes.c_void_p
        handle, number = ctypes.c_void_p, ctypes.c_int
        sdl.SDL_JoystickSetVirtualAxis.argtypes = (handle, number, ctypes.c_int16)
        for known in (sdl.SDL_JoystickSetVirtualButton, sdl.SDL_JoystickSetVirtualHat):
            known.argtypes = (handle, number, ctypes.c_uint8)
        for known in (sdl.SDL_JoystickClose, sdl.SDL_JoystickInstanceID):
            known.argtypes = (handle,)
        self._keep = _Description(
            version=_VERSION, type=type_, naxes=axes, nbuttons=buttons, nhats=hats,
            name=name.encode() or None, Rumble=_Rumble(self._feel) if rumbles else _Rumble(),
        )  # fmt: skip
        _ATTACHED.append(self._keep)
        index = sdl.SDL_JoystickAttachVirtualEx(ctypes.byref(self._keep))
        if index < 0:
            raise OSError("SDL attached no virtual joystick")
        self._handle = sdl.SDL_JoystickOpen(index)
        self.number = sdl.SDL_JoystickInstanceID(self._handle)

    def move(self, axis: int, position: float) -> None:
        scaled = ctypes.c_int16(round(position * 32767))
        assert self._sdl.SDL_JoystickSetVirtualAxis(self._handle, axis, scaled) == 0

    def press(self, button: int, down: bool = True) -> None:
        assert self._sdl.SDL_JoystickSetVirtualButton(self._handle, button, int(down)) == 0

    def point(self, hat: int, way: int) -> None:
        """``HAT_UP | HAT_LEFT``; 0 is its middle."""
        assert self._sdl.SDL_JoystickSetVirtualHat(self._handle, hat, way) == 0

    def unplug(self) -> None:
        count = self._sdl.SDL_NumJoysticks()
        for index in range(count):
            if self._sdl.SDL_JoystickGetDeviceInstanceID(index) == self.number:
                assert self._sdl.SDL_JoystickDetachVirtual(index) == 0
                return
        raise OSError("it is not plugged in")

    def _feel(self, _: int, low: int, high: int) -> int:
        self.felt.append((low / 65535.0, high / 65535.0))
        return 0

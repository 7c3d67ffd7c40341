"""An X server without a screen, and what a stranger sees and does there: pixels, keys, the mouse.

For tests and benches of windows: nothing of rtsim's own is asked.  By ctypes to libX11 and libXtst.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes.util import find_library

import numpy as np
from numpy.typing import NDArray

from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S

Picture = NDArray[np.uint8]
"""Height, width, red green blue."""
Pixel = tuple[int, int, int]

_START_S = 20.0
_ALL_PLANES = 0xFFFFFFFF
_ZPIXMAP = 2


def missing() -> str:
    """What there is to install; empty where all is there."""
    if shutil.which("Xvfb") is None:
        return "no Xvfb: sudo apt install xvfb"
    for name in ("X11", "Xtst"):
        if find_library(name) is None:
            return f"no lib{name}: sudo apt install lib{name.lower()}-6"
    return ""


@contextmanager
def xvfb(width: int = 800, height: int = 600) -> Iterator[str]:
    """A server of one's own; the name of its display."""
    reading, writing = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-screen", "0", f"{width}x{height}x24",
         "-nolisten", "tcp"],
        pass_fds=(writing,), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(writing)
    try:
        ready = select.select([reading], [], [], _START_S)[0]
        number = os.read(reading, 16).decode().strip() if ready else ""
        if not number:
            raise OSError(f"Xvfb did not start; exit status {server.poll()}")
        yield f":{number}"
    finally:
        os.close(reading)
        server.terminate()
        server.wait()


class _Image(ctypes.Structure):
    """The beginning of an XImage."""

    _fields_ = (
        ("width", ctypes.c_int), ("height", ctypes.c_int), ("xoffset", ctypes.c_int),
        ("format", ctypes.c_int), ("data", ctypes.c_void_p), ("byte_order", ctypes.c_int),
        ("bitmap_unit", ctypes.c_int), ("bitmap_bit_order", ctypes.c_int),
        ("bitmap_pad", ctypes.c_int), ("depth", ctypes.c_int), ("bytes_per_line", ctypes.c_int),
        ("bits_per_pixel", ctypes.c_int),
    )  # fmt: skip


class _Text(ctypes.Structure):
    """An XTextProperty."""

    _fields_ = (
        ("value", ctypes.c_void_p), ("encoding", ctypes.c_ulong), ("format", ctypes.c_int),
        ("items", ctypes.c_ulong),
    )  # fmt: skip


_Handler = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_ignored = _Handler(lambda display, error: 0)  # noqa: ARG005 - a window may be gone at any time


class Screen:
    """The whole of a display.  ``window`` is an id, or 0 for all of the screen."""

    def __init__(self, name: str) -> None:
        self._x, self._test = _libraries()
        self._x.XSetErrorHandler(_ignored)
        self._display = self._x.XOpenDisplay(name.encode())
        if not self._display:
            raise OSError(f"no X server at {name}")
        self._root = self._x.XDefaultRootWindow(self._display)

    def close(self) -> None:
        self._x.XCloseDisplay(self._display)

    def window(self, title: str, patience: float = 30.0) -> int:
        """The one whose title has ``title`` in it, once it is there."""
        until = stopwatch() + round(patience * NS_PER_S)
        while stopwatch() < until:
            for window in self._children():
                if title in self._title(window):
                    return window
            time.sleep(0.05)
        raise OSError(f"no window {title!r} within {patience:g} s")

    def gone(self, window: int) -> bool:
        """Whether it was closed."""
        return window not in self._children()

    def place(self, window: int) -> tuple[int, int, int, int]:
        """Left, top, width, height."""
        x, y = ctypes.c_int(), ctypes.c_int()
        sizes = [ctypes.c_uint() for _ in range(4)]
        root = ctypes.c_ulong()
        self._x.XGetGeometry(
            self._display, window or self._root, ctypes.byref(root), ctypes.byref(x),
            ctypes.byref(y), *map(ctypes.byref, sizes),
        )  # fmt: skip
        return x.value, y.value, sizes[0].value, sizes[1].value

    def picture(self, window: int = 0) -> Picture:
        """As it is on the screen now."""
        _, _, width, height = self.place(window)
        return self._area(window, 0, 0, width, height)

    def pixel(self, window: int, x: int, y: int) -> Pixel:
        red, green, blue = self._area(window, x, y, 1, 1)[0, 0].tolist()
        return red, green, blue

    def _area(self, window: int, x: int, y: int, width: int, height: int) -> Picture:
        image = self._x.XGetImage(
            self._display, window or self._root, x, y, width, height, _ALL_PLANES, _ZPIXMAP
        )
        if not image:
            raise OSError(f"no picture of {width}x{height} at {x}, {y}: is the window gone?")
        try:
            about = image.contents
            if about.bits_per_pixel != 32:
                raise OSError(f"{about.bits_per_pixel} bits a pixel; this reads 32")
            data = ctypes.string_at(about.data, about.bytes_per_line * about.height)
        finally:
            self._x.XDestroyImage(image)
        rows = np.frombuffer(data, np.uint8).reshape(height, -1, 4)[:, :width]
        return rows[:, :, 2::-1] if about.byte_order == 0 else rows[:, :, 1:]

    def point(self, window: int, x: int, y: int) -> None:
        """The mouse goes there."""
        left, top, _, _ = self.place(window)
        self.move(left + x, top + y)

    def move(self, x: int, y: int) -> None:
        """The mouse goes there, on the screen; nothing is asked first."""
        self._test.XTestFakeMotionEvent(self._display, -1, x, y, 0)
        self._x.XFlush(self._display)

    def slide(self, x: int, y: int) -> None:
        """The mouse moves by that, farther than the screen goes; nothing is asked first."""
        self._test.XTestFakeRelativeMotionEvent(self._display, x, y, 0)
        self._x.XFlush(self._display)

    def press(self, key: str, seconds: float = 0.05) -> None:
        """By its name in X: ``h``, ``Escape``, ``F12``, ``Left``."""
        code = self._x.XKeysymToKeycode(self._display, self._x.XStringToKeysym(key.encode()))
        for down in (1, 0):
            self._test.XTestFakeKeyEvent(self._display, code, down, 0)
            self._x.XSync(self._display, 0)
            time.sleep(seconds)

    def focus(self, window: int) -> None:
        """Keys go there: a bare server has no window manager to say so."""
        self._x.XSetInputFocus(self._display, window, 1, 0)
        self._x.XSync(self._display, 0)

    def _children(self) -> list[int]:
        root, parent = ctypes.c_ulong(), ctypes.c_ulong()
        found, count = ctypes.POINTER(ctypes.c_ulong)(), ctypes.c_uint()
        self._x.XQueryTree(
            self._display, self._root, ctypes.byref(root), ctypes.byref(parent),
            ctypes.byref(found), ctypes.byref(count),
        )  # fmt: skip
        out = [found[k] for k in range(count.value)]
        if found:
            self._x.XFree(found)
        return out

    def _title(self, window: int) -> str:
        """Of any encoding; a title that this looks for is ASCII."""
        name = _Text()
        if not self._x.XGetWMName(self._display, window, ctypes.byref(name)) or not name.value:
            return ""
        text = ctypes.string_at(name.value, name.items).decode(errors="replace")
        self._x.XFree(name.value)
        return text


def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """libX11 and libXtst, told what they take and give: by default all would be ints."""
    x, test = (ctypes.CDLL(find_library(name)) for name in ("X11", "Xtst"))
    pointer, id_, text = ctypes.c_void_p, ctypes.c_ulong, ctypes.c_char_p
    x.XOpenDisplay.argtypes, x.XOpenDisplay.restype = (text,), pointer
    for name in ("XCloseDisplay", "XFlush"):
        getattr(x, name).argtypes = (pointer,)
    x.XSync.argtypes = (pointer, ctypes.c_int)
    x.XFree.argtypes = (pointer,)
    x.XDefaultRootWindow.argtypes, x.XDefaultRootWindow.restype = (pointer,), id_
    x.XQueryTree.argtypes = (pointer, id_, *[pointer] * 4)
    x.XGetWMName.argtypes = (pointer, id_, pointer)
    x.XGetGeometry.argtypes = (pointer, id_, *[pointer] * 7)
    x.XGetImage.argtypes = (
        pointer, id_, ctypes.c_int, ctypes.c_int, ctypes.c_uint, ctypes.c_uint, id_, ctypes.c_int
    )  # fmt: skip
    x.XGetImage.restype = ctypes.POINTER(_Image)
    x.XDestroyImage.argtypes = (ctypes.POINTER(_Image),)
    x.XStringToKeysym.argtypes, x.XStringToKeysym.restype = (text,), id_
    x.XKeysymToKeycode.argtypes, x.XKeysymToKeycode.restype = (pointer, id_), ctypes.c_ubyte
    x.XSetInputFocus.argtypes = (pointer, id_, ctypes.c_int, id_)
    x.XSetErrorHandler.argtypes = (_Handler,)
    test.XTestFakeMotionEvent.argtypes = (pointer, ctypes.c_int, ctypes.c_int, ctypes.c_int, id_)
    test.XTestFakeRelativeMotionEvent.argtypes = (pointer, ctypes.c_int, ctypes.c_int, id_)
    test.XTestFakeKeyEvent.argtypes = (pointer, ctypes.c_uint, ctypes.c_int, id_)
    return x, test

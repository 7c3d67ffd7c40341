"""Frames on buses and networks, and their descriptions.

A codec (``FrameCodec``) converts signals to the bytes of a frame, and back. A DBC file describes
frames of a CAN bus (``rtsim.components.frames.dbc``). A TOML file describes datagrams
(:mod:`rtsim.components.frames.struct_codec`).

Other packages add kinds of files through the entry point ``rtsim.frame_files``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from rtsim.components.frames.contract import OVERFLOW, Frame, FrameCodec, FrameError
from rtsim.components.frames.dbc import read_dbc
from rtsim.components.frames.struct_codec import read_structs
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.extension_point import ExtensionPoint

__all__ = ["FRAME_FILES", "Frame", "FrameCodec", "FrameError", "read_frames"]

Reader = Callable[[Path, str], Mapping[str, FrameCodec]]
"""A function ``read(path, overflow)`` that returns the codecs of a file by their names."""


def _checked(name: str, made: object) -> Reader:
    if not callable(made):
        raise ScenarioError(
            f"reader of .{name} files is {made!r}; expected a function read(path, overflow)"
        )
    return made


FRAME_FILES: ExtensionPoint[Reader] = ExtensionPoint(
    "rtsim.frame_files", "kind of file of frames", {"dbc": read_dbc, "toml": read_structs}, _checked
)
"""The function that reads each kind of file, by the suffix without the dot."""


def read_frames(path: str | Path, overflow: str = OVERFLOW[0]) -> Frames:
    """Return the codecs of all frames in a file.

    ``overflow`` determines the action for a value out of range: ``"error"``, or ``"saturate"`` to
    send the nearest value. Raises :class:`ScenarioError`.
    """
    path = Path(path)
    if overflow not in OVERFLOW:
        raise ScenarioError(f"overflow = {overflow!r} is unknown; choose {' or '.join(OVERFLOW)}")
    if not path.is_file():
        raise ScenarioError(
            f"{path.absolute()} does not exist; give a file of frames, such as car.dbc"
        )
    suffix = path.suffix.lower().removeprefix(".")
    codecs = FRAME_FILES.get_or_raise(suffix, str(path))(path, overflow)
    for codec in codecs.values():
        if codec.period_ns < 0:
            raise ScenarioError(
                f"{path}: frame {codec.name} has a period of {codec.period_ns / 1e6:g} ms; give a "
                "positive period, or 0 for none"
            )
    return Frames(path, codecs)


class Frames(Mapping[str, FrameCodec]):
    """The codecs of a file, by the names of the frames."""

    def __init__(self, path: Path, codecs: Mapping[str, FrameCodec]) -> None:
        self.path = path
        self._codecs = dict(codecs)

    def __getitem__(self, name: str) -> FrameCodec:
        try:
            return self._codecs[name]
        except KeyError:
            raise UnknownName("frame", name, self._codecs, str(self.path)) from None

    def __contains__(self, name: object) -> bool:
        return name in self._codecs

    def __iter__(self) -> Iterator[str]:
        return iter(self._codecs)

    def __len__(self) -> int:
        return len(self._codecs)

"""The contract of frames and of their codecs; ``check_frame_codec`` checks a codec."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol

from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.signals import Signals, Vector

OVERFLOW = ("error", "saturate")
"""What a codec does with a value that its frame cannot hold."""


class FrameError(RtsimError):
    """A frame is malformed, or a value does not fit into a frame."""


class Frame(NamedTuple):
    """One frame on a bus, or one datagram."""

    data: bytes
    identifier: int = 0
    """The identifier of a CAN frame; 0 for a datagram."""
    extended: bool = False
    """True if the identifier has 29 bits, false if it has 11."""


class FrameCodec(Protocol):
    """One kind of frame: its name, its identifier, its signals and its bytes."""

    @property
    def name(self) -> str: ...

    @property
    def signals(self) -> Signals:
        """The signals that frames of this kind can carry; each is a scalar or an array."""
        ...

    @property
    def identifier(self) -> int: ...

    @property
    def extended(self) -> bool: ...

    @property
    def length(self) -> int:
        """Length of each frame, bytes."""
        ...

    @property
    def period_ns(self) -> int:
        """The period with which the description says that the frame is sent, ns; 0 if it does not
        say so."""
        ...

    def encode(self, values: Vector) -> bytes:
        """Return the bytes of the frame with ``values`` (n,), each rounded to the nearest raw
        value.

        Raises :class:`FrameError` for a value that is not finite or that the frame cannot hold.
        """
        ...

    def decode(self, data: bytes, into: Vector) -> None:
        """Write the values that the frame carries to ``into`` (n,); leave its other elements.

        Raises :class:`FrameError` for a malformed frame; ``into`` is then unchanged.
        """
        ...


def check_identifiers(path: Path, codecs: Iterable[FrameCodec]) -> None:
    """Raise :class:`ScenarioError` if two frames of the file ``path`` have one identifier."""
    known: dict[tuple[int, bool], str] = {}
    for codec in codecs:
        key = codec.identifier, codec.extended
        other = known.setdefault(key, codec.name)
        if other != codec.name:
            raise ScenarioError(
                f"{path}: frames {other} and {codec.name} both have the identifier "
                f"{hexadecimal(*key)}; a receiver cannot tell them apart"
            )


def hexadecimal(identifier: int, extended: bool) -> str:
    """Return an identifier as text, with a digit more than a short one if it has 29 bits."""
    return f"0x{identifier:08x}" if extended else f"0x{identifier:03x}"

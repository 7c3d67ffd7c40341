"""What transports of frames have in common: delays of 0 ns, and values in the bits of a frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np

from rtsim.components.frames.contract import FrameCodec
from rtsim.components.ports import check_units
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals, Vector

NEWEST, ALL = KEEP = ("newest", "all")
"""Which of several messages that wait at one sender are kept."""
Names = tuple[tuple[str, str], ...]
"""Pairs of a signal of a message and a signal of its frame, where their names differ."""
Content = Callable[[Vector], tuple[bytes | None, Vector]]
"""Function of a message's values (n,): the bytes of its frame, and the values that arrive (n,)."""


def check_keep(keep: str, medium: str) -> None:
    if keep not in KEEP:
        raise ScenarioError(f"{medium}: keep = {keep!r}; choose {' or '.join(map(repr, KEEP))}")


def names_of(signals: Mapping[str, str] | None) -> Names:
    return tuple(sorted((signals or {}).items()))


class Framed:
    """Base class of transports that send each message as a frame, with or without a codec."""

    codec: FrameCodec | None
    names: Names
    _delays: ClassVar[tuple[int, ...]] = (0,)

    def described(self, label: str, length: int | None, medium: object) -> str:
        """Return a text that identifies the frame: label, length, codec, names and medium."""
        size = "" if length is None else f", {length} bytes"
        codec = "" if self.codec is None else f", {self.codec!r}"
        names = "".join(f", {a}={b}" for a, b in self.names)
        return f"{type(self).__name__}({label}{size}{codec}{names}, {medium!r})"

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return ``(0,)``, because a completed frame is ready for its medium without a delay."""
        return self._delays

    def content(self, signals: Signals, topic: str, kind: str, length: int) -> Content:
        """Return the function that computes the frame of a message with ``signals``.

        ``length`` is the number of bytes of data. Without a codec, the bytes of the frame are None
        and values arrive unchanged. Signals that do not fit raise :class:`ScenarioError`, whose
        message calls the frame a ``kind`` frame.
        """
        codec = self.codec
        if codec is None:
            if signals.size and not length:
                raise ScenarioError(
                    f"messages of {topic} have {signals.size} values, but their {kind} frame has "
                    "no data; give its length= in bytes"
                )
            return lambda values: (None, values.copy())
        where = positions(signals, codec, self.names, topic)
        whole = codec.signals.initial()

        def coded(values: Vector) -> tuple[bytes, Vector]:
            sent, found = whole.copy(), np.full(whole.size, np.nan)
            sent[where] = values
            data = codec.encode(sent)
            codec.decode(data, found)
            return data, found[where]

        return coded


def positions(signals: Signals, codec: FrameCodec, names: Names, topic: str) -> list[int]:
    """Return the index in the frame of each element of a message with ``signals``.

    Signals that the frame does not have raise :class:`ScenarioError`.
    """
    given = dict(names)
    for name in given:
        if name not in signals:
            raise UnknownName("signal", name, signals.names, f"messages of {topic}")
    out: list[int] = []
    for signal in signals:
        name = given.get(signal.name, signal.name)
        if name not in codec.signals:
            raise UnknownName(
                "signal", name, codec.signals.names,
                f"frame {codec.name}, which carries messages of {topic} (if the frame has "
                "another name for the signal, give it in signals=)",
            )  # fmt: skip
        check_units(f"{topic}.{signal.name}", signal, codec.signals[name], codec.name)
        here = codec.signals.slice(name)
        if here.stop - here.start != signal.size:
            raise ScenarioError(
                f"{topic}.{signal.name} has {signal.size} elements, but {name} of frame "
                f"{codec.name} has {here.stop - here.start}"
            )
        out += range(here.start, here.stop)
    return out

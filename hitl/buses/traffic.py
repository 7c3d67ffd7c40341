"""The frames that one node sends and receives on a link, and their signals as vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hitl.buses.contract import FrameLink
from hitl.buses.urls import parse_frame_url
from rtsim.components.frames import Frame, FrameCodec, FrameError, read_frames
from rtsim.components.frames.contract import hexadecimal
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signals, Vector

MOST_AT_ONCE = 256
"""The most frames that are taken from a link at one tag; the others stay for the next tag."""
MOST_REASONS = 64
"""The most different reasons that are kept for malformed frames; the others are one."""
OTHERS = "other reasons"

Described = str | Path | Mapping[str, FrameCodec]
"""The file that describes frames, or their codecs by name."""


def codecs_of(url: str, frames: Described | None, names: Iterable[str]) -> tuple[FrameCodec, ...]:
    """Return the codecs called ``names``; ``frames`` replaces the file that the URL names."""
    found: Mapping[str, FrameCodec]
    if isinstance(frames, Mapping):
        found = frames
    else:
        path = frames or parse_frame_url(url).frames
        if not path:
            raise ScenarioError(
                f"{url} names no file of frames; add the option frames=FILE.dbc to the URL, or "
                "give frames="
            )
        found = read_frames(path)
    return tuple(found[name] for name in names)


@dataclass(frozen=True)
class Layout:
    """Frames side by side in one vector."""

    codecs: tuple[FrameCodec, ...]
    signals: Signals
    places: tuple[slice, ...]
    """The place of each codec's values in the vector."""

    @classmethod
    def of(cls, codecs: Sequence[FrameCodec], prefix: bool = False) -> Layout:
        """Return the layout of ``codecs``; with ``prefix`` names are ``FRAME_SIGNAL``."""
        owner: dict[str, str] = {}
        signals, places, at = Signals(), [], 0
        for codec in codecs:
            own = codec.signals.prefixed(f"{codec.name}_") if prefix else codec.signals
            for signal in own:
                other = owner.setdefault(signal.name, codec.name)
                if other != codec.name:
                    raise ScenarioError(
                        f"frames {other} and {codec.name} both have a signal {signal.name}; give "
                        "prefix=True, so that names begin with the name of the frame"
                    )
            signals += own
            places.append(slice(at, at + own.size))
            at += own.size
        return cls(tuple(codecs), signals, tuple(places))


class Traffic:
    """Sends and receives frames on ``link``, and counts the malformed ones with their reasons."""

    def __init__(self, link: FrameLink, sends: Layout, receives: Layout) -> None:
        self.link = link
        self.sends, self.receives = sends, receives
        self.values: Vector = receives.signals.initial()
        """The values received last, (n,)."""
        self.counts: dict[str, int] = {codec.name: 0 for codec in receives.codecs}
        """Number of frames received, by the name of the frame."""
        self.malformed: dict[str, int] = {}
        """Number of malformed frames, by reason."""
        self.ignored = 0
        """Number of frames with an identifier that is none of this node's."""
        self._by_identifier: dict[tuple[int, bool], int] = {}
        if link.addressed:
            for k, codec in enumerate(receives.codecs):
                other = self._by_identifier.setdefault((codec.identifier, codec.extended), k)
                if other != k:
                    told = hexadecimal(codec.identifier, codec.extended)
                    raise ScenarioError(
                        f"frames {receives.codecs[other].name} and {codec.name} both have the "
                        f"identifier {told}"
                    )

    @property
    def malformed_frames(self) -> int:
        """Number of malformed frames for all reasons."""
        return sum(self.malformed.values())

    def send(self, values: Vector) -> None:
        """Send each frame with its part of ``values`` (m,).

        Raises :class:`FrameError` for a value that does not fit, and
        :class:`hitl.buses.contract.LinkError`.
        """
        for codec, place in zip(self.sends.codecs, self.sends.places, strict=True):
            data = codec.encode(values[place])
            self.link.send(Frame(data, codec.identifier, codec.extended))

    def drain(self) -> set[str]:
        """Take the frames that have arrived; return the names of those that were taken."""
        found: set[str] = set()
        for _ in range(MOST_AT_ONCE):
            arrived, name = self.next(0.0)
            if not arrived:
                break
            found |= {name} if name else set()
        return found

    def next(self, timeout: float) -> tuple[bool, str]:
        """Take one frame; return whether one arrived within ``timeout`` s, and its name.

        The name is empty for a frame of others and for a malformed one.
        """
        try:
            frame = self.link.receive(timeout)
        except FrameError as error:
            self.complain(str(error))
            return True, ""
        return (False, "") if frame is None else (True, self.take(frame))

    def take(self, frame: Frame) -> str:
        """Write the values of ``frame`` to :attr:`values`; return its name, or "" if not taken."""
        if self.link.addressed:
            k = self._by_identifier.get((frame.identifier, frame.extended))
            if k is None:
                self.ignored += 1
                return ""
            chosen: Sequence[int] = (k,)
        else:
            chosen = range(len(self.receives.codecs))
        reason = f"a frame of {len(frame.data)} bytes is none of {', '.join(self.counts)}"
        for k in chosen:
            codec, place = self.receives.codecs[k], self.receives.places[k]
            try:
                codec.decode(frame.data, self.values[place])
            except FrameError as error:
                if len(chosen) == 1 or len(frame.data) == codec.length:
                    reason = str(error)
                continue
            self.counts[codec.name] += 1
            return codec.name
        self.complain(reason)
        return ""

    def complain(self, reason: str) -> None:
        """Count a malformed frame."""
        if reason not in self.malformed and len(self.malformed) >= MOST_REASONS:
            reason = OTHERS
        self.malformed[reason] = self.malformed.get(reason, 0) + 1

    def close(self) -> None:
        self.link.close()

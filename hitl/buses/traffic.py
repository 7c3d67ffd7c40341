"""Controllers and external inputs that exchange frames over a link.

A :class:`FrameController` sends its inputs as frames.  The controller's outputs are the signals of
received frames.  A :class:`FrameInput` is an external input that reads frames at each tag.  The
values are recorded, and a replay uses the recorded values.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hitl.buses.contract import FrameLink, LinkError
from hitl.buses.urls import open_frame_link, parse_frame_url
from rtsim.components.frames import Frame, FrameCodec, FrameError, read_frames
from rtsim.components.frames.contract import StampedCodec, hexadecimal
from rtsim.core.clock import Wake, stopwatch
from rtsim.core.errors import ControllerError, ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag

MOST_AT_ONCE = 256
"""Maximum number of frames read from a link at one tag; further frames wait for the next tag."""
MOST_REASONS = 64
"""Maximum number of reasons for which malformed frames are counted separately."""
OTHERS = "other reasons"

Described = str | Path | Mapping[str, FrameCodec]
"""The file that describes the frames, or codecs by name."""


def codecs_of(url: str, frames: Described | None, names: Iterable[str]) -> tuple[FrameCodec, ...]:
    """Return the codecs of the frames ``names``.

    ``frames`` replaces the file that the URL names.
    """
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
    """The places of several frames' values in one vector."""

    codecs: tuple[FrameCodec, ...]
    signals: Signals
    places: tuple[slice, ...]
    """Slice of each codec's values in the vector."""

    @classmethod
    def of(cls, codecs: Sequence[FrameCodec], prefix: bool = False) -> Layout:
        """Return the layout of ``codecs``; with ``prefix``, signals are named ``FRAME_SIGNAL``."""
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


class Requests:
    """The frames of each request: the time in them, and how often each frame is sent.

    Args:
        layout: Frames that are sent.
        every: For each frame whose name is in ``every``: send it at each tick whose number is a
            multiple of this number.
        clock_fields: Signals of the frames that contain the time of the run, s.
        owner: Name for error messages.
    """

    def __init__(
        self, layout: Layout, every: Mapping[str, int], clock_fields: Iterable[str], owner: str
    ) -> None:
        self.layout = layout
        self._every = [every.get(codec.name, 1) for codec in layout.codecs]
        self._stamped = {c.name: c for c in layout.codecs if isinstance(c, StampedCodec)}
        known = [codec.name for codec in layout.codecs]
        for name in every:
            if name not in known:
                raise UnknownName("frame", name, known, f"the frames sent to {owner}")
            if every[name] < 1:
                raise ScenarioError(f"{owner}: every={every[name]} of {name}; give 1 or more")
        clocks = tuple(clock_fields)
        self._given = np.ones(layout.signals.size, np.bool_)
        for field in clocks:
            if field not in layout.signals.names:
                names = layout.signals.names
                raise UnknownName("field", field, names, f"the frames sent to {owner}")
            self._given[layout.signals.slice(field)] = False
        self.inputs = Signals(*(s for s in layout.signals if s.name not in clocks))
        """The signals of the frames without the time."""

    def due(self, tick: int, tag: Tag, inputs: Vector) -> Iterator[tuple[FrameCodec, bytes]]:
        """Yield the codec and the bytes of each frame of a request.

        Args:
            tick: Number of the request.
            tag: Tag of the request.
            inputs: Values of :attr:`inputs`.

        Raises:
            ControllerError: A value does not fit its frame.
        """
        values = np.full(self.layout.signals.size, tag.ns / NS_PER_S)
        values[self._given] = inputs
        parts = zip(self.layout.codecs, self.layout.places, self._every, strict=True)
        for codec, place, every in parts:
            if tick % every:
                continue
            try:
                if codec.name in self._stamped:
                    yield codec, self._stamped[codec.name].encode_at(tag.ns, values[place])
                else:
                    yield codec, codec.encode(values[place])
            except FrameError as error:
                raise ControllerError(f"{error} (at {tag})") from None


def count_reason(counts: dict[str, int], reason: str) -> None:
    """Count a malformed frame in ``counts``, which has at most :data:`MOST_REASONS` reasons."""
    if reason not in counts and len(counts) >= MOST_REASONS:
        reason = OTHERS
    counts[reason] = counts.get(reason, 0) + 1


def malformed_notes(counts: Mapping[str, int]) -> list[str]:
    """Return a text for each reason in ``counts``, for the warnings of a run."""
    return [f"malformed frames: {count}, {reason}" for reason, count in counts.items()]


class Traffic:
    """Receiver of frames on ``link``, with a count of malformed frames by reason."""

    def __init__(self, link: FrameLink, receives: Layout) -> None:
        self.link = link
        self.receives = receives
        self.values: Vector = receives.signals.initial()
        """The latest received values, shape (n,)."""
        self.counts: dict[str, int] = {codec.name: 0 for codec in receives.codecs}
        """Number of received frames, by the name of the frame."""
        self.malformed: dict[str, int] = {}
        """Number of malformed frames, by reason."""
        self.ignored = 0
        """Number of frames with identifiers that this node does not receive."""
        self._by_identifier: dict[tuple[int, bool], int] = {}
        if link.addressed:
            for k, codec in enumerate(receives.codecs):
                other = self._by_identifier.setdefault((codec.identifier, codec.extended), k)
                if other != k:
                    identifier = hexadecimal(codec.identifier, codec.extended)
                    raise ScenarioError(
                        f"frames {receives.codecs[other].name} and {codec.name} both have the "
                        f"identifier {identifier}"
                    )

    @property
    def malformed_frames(self) -> int:
        return sum(self.malformed.values())

    def drain(self) -> set[str]:
        """Read the frames that have arrived; return the names of the decoded frames."""
        found: set[str] = set()
        for _ in range(MOST_AT_ONCE):
            arrived, name = self.next(0.0)
            if not arrived:
                break
            found |= {name} if name else set()
        return found

    def next(self, timeout: float) -> tuple[bool, str]:
        """Read one frame; return ``(arrived, name)``.

        ``arrived`` is True if a frame arrived within ``timeout`` s.  ``name`` is empty for a
        malformed frame and for a frame that this node does not receive.
        """
        try:
            frame = self.link.receive(timeout)
        except FrameError as error:
            self.complain(str(error))
            return True, ""
        return (False, "") if frame is None else (True, self.take(frame))

    def take(self, frame: Frame) -> str:
        """Decode ``frame`` into :attr:`values` and return its name.

        The name is empty if the frame is malformed or not for this node.
        """
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
        count_reason(self.malformed, reason)

    def close(self) -> None:
        self.link.close()


LATEST, AWAITED = ANSWERS = ("latest", "awaited")
MALFORMED = "malformed"


class FrameController:
    """A controller that exchanges frames with nodes outside of this process.

    At each tick, the controller sends its inputs in the frames ``send``. The controller's outputs
    are the signals of the frames ``receive``, and the number of malformed frames so far
    (``malformed``).

    Args:
        url: URL of the link; see :mod:`hitl.buses.urls`.
        send: Names of the frames to send.
        receive: Names of the frames to receive.
        frames: File that describes the frames, unless the URL names one.
        answer: With ``"latest"``, the outputs are the latest received values.  With ``"awaited"``,
            the controller waits after its request until all frames in ``receive`` have arrived.
        prefix: If True, names of signals begin with the name of their frame.
        every: For frames that are not sent at each tick: the number of ticks between them.
        clock_fields: Signals of sent frames that contain the time of the run, s.

    Example:
        engine = FrameController(
            "can://socketcan/can0?dbc=car.dbc", send=["Pedal"], receive=["Engine"]
        )
        out.controller("engine", engine, period=0.01, inputs={"pedal": "driver.pedal"})
    """

    outside = True

    def __init__(
        self,
        url: str,
        *,
        send: Sequence[str] = (),
        receive: Sequence[str] = (),
        frames: Described | None = None,
        answer: str = LATEST,
        prefix: bool = False,
        every: Mapping[str, int] | None = None,
        clock_fields: Iterable[str] = (),
    ) -> None:
        self.url = parse_frame_url(url)
        if answer not in ANSWERS:
            raise ScenarioError(f"answer is {answer!r}; choose {' or '.join(map(repr, ANSWERS))}")
        if not send and not receive:
            raise ScenarioError(f"{url}: give the names of frames to send= or to receive=")
        if answer == AWAITED and not receive:
            raise ScenarioError(f"{url}: answer='awaited' waits for frames; give receive=")
        self._answer = answer
        sends = Layout.of(codecs_of(url, frames, send), prefix)
        self._requests = Requests(sends, every or {}, clock_fields, url)
        self._receives = Layout.of(codecs_of(url, frames, receive), prefix)
        self.inputs = self._requests.inputs
        self.outputs = self._receives.signals + Signals(Signal(MALFORMED))
        self.traffic: Traffic | None = None
        """The open link with its counters; None before a run."""
        self.malformed: dict[str, int] = {}
        """Number of malformed frames in the last run, by reason."""
        self._missing: set[str] = set()
        self._tick = 0

    @property
    def prompt(self) -> bool:
        """True if the controller never waits for an answer."""
        return self._answer == LATEST

    def fresh(self) -> FrameController:
        """Return a copy with an open link, for one run.

        Raises :class:`hitl.buses.contract.LinkError` if the link cannot be opened.
        """
        out = copy(self)
        out.traffic = Traffic(open_frame_link(self.url), self._receives)
        out._missing, out._tick = set(), 0
        self.malformed = out.malformed = out.traffic.malformed
        return out

    def send(self, tag: Tag, inputs: Vector) -> None:
        traffic = self._open()
        if self._answer == AWAITED:
            traffic.drain()  # frames that arrived before the request do not answer it
            self._missing = set(traffic.counts)
        for codec, data in self._requests.due(self._tick, tag, inputs):
            traffic.link.send(Frame(data, codec.identifier, codec.extended))
        self._tick += 1

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        traffic = self._open()
        if self._answer == LATEST:
            traffic.drain()
        elif not self._awaited(traffic, patience):
            return None
        return np.append(traffic.values, float(traffic.malformed_frames))

    def _awaited(self, traffic: Traffic, patience: float) -> bool:
        until = stopwatch() + round(patience * NS_PER_S)
        while self._missing:
            left = max(0, until - stopwatch())
            arrived, name = traffic.next(left / NS_PER_S)
            if name and self.answers(name):
                self._missing.discard(name)
            if not arrived and not left:
                return False
        return True

    def answers(self, name: str) -> bool:  # noqa: ARG002
        """Return whether the received frame ``name`` answers the request; here each frame does."""
        return True

    @property
    def notes(self) -> list[str]:
        """Why the answers are doubtful: malformed frames, and frames that never arrived."""
        if self.traffic is None:
            return []
        never = [name for name, count in self.traffic.counts.items() if not count]
        missing = [f"no frame {name} has arrived from {self.url.text}" for name in never]
        return malformed_notes(self.malformed) + missing

    def _open(self) -> Traffic:
        if self.traffic is None:
            raise ControllerError(
                f"{self.url.text} is not open; use the controller that fresh() returns"
            )
        return self.traffic

    def describe(self) -> dict[str, object]:
        return {
            "type": type(self).__name__,
            "url": self.url.text,
            "answer": self._answer,
            "sends": [repr(codec) for codec in self._requests.layout.codecs],
            "receives": [repr(codec) for codec in self._receives.codecs],
        }

    def close(self) -> None:
        if self.traffic is not None:
            self.traffic.close()


MOST_KEPT = 4096
"""Maximum number of frames that wait for the next tag.

The loss of further frames counts as a malformed frame.
"""
_LOOK_S = 0.05


class FrameInput:
    """The device of an external input whose values arrive as frames.

    The link opens at the first tag of a live run; a replay does not open the link.  Without
    ``event``, frames are read at the tags of other components. With ``event``, a thread receives
    frames from the link, and each frame causes a tag at the time of its arrival. All event inputs
    of a scenario share one :class:`Wake`: pass the ``wake`` of the first input as ``event`` to the
    others. The other arguments are those of :class:`FrameController`.

    Example:
        pedal = FrameInput("udp://127.0.0.1:5005?bind=127.0.0.1:5006&frames=pedal.toml", ["pedal"])
        out.external_input("pedal", pedal.signals, pedal, wake=pedal.wake)
    """

    def __init__(
        self,
        url: str,
        receive: Sequence[str],
        *,
        frames: Described | None = None,
        event: bool | Wake = False,
        prefix: bool = False,
    ) -> None:
        self.url = parse_frame_url(url)
        self._layout = Layout.of(codecs_of(url, frames, receive), prefix)
        self.signals = self._layout.signals + Signals(Signal(MALFORMED))
        self.wake: Wake | None = event if isinstance(event, Wake) else Wake() if event else None
        self.traffic: Traffic | None = None
        """The open link with its counters; None before the first tag."""
        self.malformed: dict[str, int] = {}
        """Number of malformed frames in the last run, by reason."""
        self.stamps = (0, 0, 0)
        """Times at which the last frame arrived, was decoded and was sampled, ns."""

    def poll(self) -> Vector | None:
        began = stopwatch()
        traffic = self._open()
        before = traffic.malformed_frames
        if not traffic.drain() and traffic.malformed_frames == before:
            return None
        now = stopwatch()
        self.stamps = getattr(traffic.link, "arrived_ns", 0) or began, now, now
        return np.append(traffic.values, float(traffic.malformed_frames))

    def _open(self) -> Traffic:
        if self.traffic is None:
            link = open_frame_link(self.url)
            if self.wake is not None:
                link = ReadAhead(link, self.wake)
            self.traffic = Traffic(link, self._layout)
            self.malformed = self.traffic.malformed
        return self.traffic

    def close(self) -> None:
        """Close the link; the next run opens it again."""
        traffic, self.traffic = self.traffic, None
        if traffic is not None:
            traffic.close()


class ReadAhead:
    """A link that a thread reads continuously; each arriving frame sets ``wake``."""

    def __init__(self, link: FrameLink, wake: Wake) -> None:
        self.addressed = link.addressed
        self._link, self._wake = link, wake
        self._arrived: deque[tuple[int, Frame | FrameError | LinkError]] = deque()
        self.arrived_ns = 0
        """Time at which the last frame arrived, ns."""
        self._closing = self._lost = False
        self._thread = threading.Thread(target=self._read, name="frames", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._closing:
            item: Frame | FrameError | LinkError | None
            try:
                item = self._link.receive(_LOOK_S)
            except FrameError as error:
                item = error
            except LinkError as error:
                item = error
                self._closing = True
            if item is None:
                continue
            if len(self._arrived) >= MOST_KEPT and not isinstance(item, LinkError):
                self._lost = True
            else:
                self._arrived.append((stopwatch(), item))
            self._wake.set()

    def send(self, frame: Frame) -> None:
        self._link.send(frame)

    def receive(self, timeout: float) -> Frame | None:  # noqa: ARG002
        """Return a frame that has arrived, or None, without waiting."""
        if self._lost:
            self._lost = False
            raise FrameError(
                f"more than {MOST_KEPT} frames arrived between two tags; some are lost"
            )
        if not self._arrived:
            return None
        self.arrived_ns, item = self._arrived.popleft()
        if isinstance(item, Exception):
            raise item
        return item

    def close(self) -> None:
        self._closing = True
        self._thread.join()
        self._link.close()

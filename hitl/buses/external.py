"""Frames as an external input: read at each tag, recorded, and fed again in a replay."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

import numpy as np

from hitl.buses.contract import FrameLink, LinkError
from hitl.buses.controller import MALFORMED
from hitl.buses.traffic import Described, Layout, Traffic, codecs_of
from hitl.buses.urls import open_frame_link, parse_frame_url
from rtsim.components.frames import Frame, FrameError
from rtsim.core.clock import Wake
from rtsim.core.signals import Signal, Signals, Vector

MOST_KEPT = 4096
"""Frames that wait for the next tag; further ones are lost, which counts as a malformed frame."""
_LOOK_S = 0.05


class FrameInput:
    """The device of an external input whose values arrive as frames.

    The link opens at the first tag of a live run.  A replay does not open it.  With ``event``, a
    thread reads the link, and a frame inserts a tag at its arrival; without it, frames are read at
    the tags of other components.  All event inputs of a scenario share one wake: give the
    ``wake`` of the first as ``event`` of the others.  The other arguments are those of
    :class:`hitl.buses.controller.FrameController`.

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
        """The open link with its counts; None before the first tag."""
        self.malformed: dict[str, int] = {}
        """Number of malformed frames of the last run, by reason."""

    def poll(self) -> Vector | None:
        traffic = self._open()
        before = traffic.malformed_frames
        if not traffic.drain() and traffic.malformed_frames == before:
            return None
        return np.append(traffic.values, float(traffic.malformed_frames))

    def _open(self) -> Traffic:
        if self.traffic is None:
            link = open_frame_link(self.url)
            if self.wake is not None:
                link = ReadAhead(link, self.wake)
            self.traffic = Traffic(link, Layout.of(()), self._layout)
            self.malformed = self.traffic.malformed
        return self.traffic

    def close(self) -> None:
        """Close the link; the next run opens it again."""
        traffic, self.traffic = self.traffic, None
        if traffic is not None:
            traffic.close()


class ReadAhead:
    """A link whose frames a thread reads, so that ``wake`` is set when one arrives."""

    def __init__(self, link: FrameLink, wake: Wake) -> None:
        self.addressed = link.addressed
        self._link, self._wake = link, wake
        self._arrived: deque[Frame | FrameError | LinkError] = deque()
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
                self._arrived.append(item)
            self._wake.set()

    def send(self, frame: Frame) -> None:
        self._link.send(frame)

    def receive(self, timeout: float) -> Frame | None:  # noqa: ARG002
        """Return a frame that has arrived; never wait."""
        if self._lost:
            self._lost = False
            raise FrameError(
                f"more than {MOST_KEPT} frames arrived between two tags; some are lost"
            )
        if not self._arrived:
            return None
        item = self._arrived.popleft()
        if isinstance(item, Exception):
            raise item
        return item

    def close(self) -> None:
        self._closing = True
        self._thread.join()
        self._link.close()

"""A controller whose inputs are sent as frames, and whose outputs are frames that it receives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hitl.buses.traffic import Described, Layout, Traffic, codecs_of
from hitl.buses.urls import open_frame_link, parse_frame_url
from rtsim.components.frames import FrameError
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag

LATEST, AWAITED = ANSWERS = ("latest", "awaited")
MALFORMED = "malformed"


class FrameController:
    """Nodes on a bus or network beyond this process, as a controller of a scenario.

    At each tick it sends the frames ``send`` with its inputs.  Its outputs are the signals of the
    frames ``receive``, and the number of malformed frames so far (``malformed``).

    ``url``: the link (:mod:`hitl.buses.urls`).  ``frames``: the file that describes the frames,
    unless the URL names it.  ``answer``: ``"latest"`` gives at once what has arrived last;
    ``"awaited"`` waits until each received frame has arrived after the request, as a controller
    that runs elsewhere answers.  ``prefix``: names of signals begin with the name of their frame.

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
    ) -> None:
        self.url = parse_frame_url(url)
        if answer not in ANSWERS:
            raise ScenarioError(f"answer is {answer!r}; choose {' or '.join(map(repr, ANSWERS))}")
        if not send and not receive:
            raise ScenarioError(f"{url}: give the names of frames to send= or to receive=")
        if answer == AWAITED and not receive:
            raise ScenarioError(f"{url}: answer='awaited' waits for frames; give receive=")
        self._answer = answer
        self._sends = Layout.of(codecs_of(url, frames, send), prefix)
        self._receives = Layout.of(codecs_of(url, frames, receive), prefix)
        self.inputs = self._sends.signals
        self.outputs = self._receives.signals + Signals(Signal(MALFORMED))
        self.traffic: Traffic | None = None
        """The open link with its counts; None before a run."""
        self.malformed: dict[str, int] = {}
        """Number of malformed frames of the last run, by reason."""
        self._missing: set[str] = set()

    @property
    def prompt(self) -> bool:
        """True if the controller never waits for an answer."""
        return self._answer == LATEST

    def fresh(self) -> FrameController:
        """Return a copy with an open link, for one run.

        Raises :class:`hitl.buses.contract.LinkError` if the link cannot be opened.
        """
        out = object.__new__(type(self))
        vars(out).update(vars(self))
        out.traffic = Traffic(open_frame_link(self.url), self._sends, self._receives)
        out._missing = set()
        self.malformed = out.malformed = out.traffic.malformed
        return out

    def send(self, tag: Tag, inputs: Vector) -> None:
        traffic = self._open()
        if self._answer == AWAITED:
            traffic.drain()  # what came before the request is no answer to it
            self._missing = set(traffic.counts)
        try:
            traffic.send(inputs)
        except FrameError as error:
            raise ControllerError(f"{error} (at {tag})") from None

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        traffic = self._open()
        if self._answer == LATEST:
            traffic.drain()
        elif not self._awaited(traffic, patience):
            return None
        return np.append(traffic.values, float(traffic.malformed_frames))

    def _awaited(self, traffic: Traffic, patience: float) -> bool:
        """Return whether each frame arrived after the request, within ``patience`` s."""
        until = stopwatch() + round(patience * NS_PER_S)
        while self._missing:
            left = max(0, until - stopwatch())
            arrived, name = traffic.next(left / NS_PER_S)
            self._missing.discard(name)
            if not arrived and not left:
                return False
        return True

    def _open(self) -> Traffic:
        if self.traffic is None:
            raise ControllerError(f"{self.url.text} is not open; a run opens it by fresh()")
        return self.traffic

    def describe(self) -> dict[str, object]:
        return {
            "type": type(self).__name__,
            "url": self.url.text,
            "answer": self._answer,
            "sends": [repr(codec) for codec in self._sends.codecs],
            "receives": [repr(codec) for codec in self._receives.codecs],
        }

    def close(self) -> None:
        if self.traffic is not None:
            self.traffic.close()

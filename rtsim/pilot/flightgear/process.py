"""The process that sends a run to FlightGear: ``python -m rtsim.pilot.flightgear.process FILE ...``

FILE is the memory that the run shares with its viewers. Like a viewer, the process only reads the
states, and interpolates them at the time of each packet. It ends when its input closes.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from rtsim.core.clock import Clock, WallClock
from rtsim.core.errors import RtsimError
from rtsim.pilot.child import READY, input_closed
from rtsim.pilot.flightgear.aircraft import Aircraft
from rtsim.pilot.flightgear.packet import VERSIONS, Packets
from rtsim.pilot.flightgear.sender import Address, Sender
from rtsim.pilot.pacing import VideoFrames
from rtsim.pilot.shared import Exchange, Shared
from rtsim.pilot.viewer.state import Picture, RunState
from rtsim.scenario.body import Body
from rtsim.timing.scheduling import SchedulingRequest, request

RATE_HZ = 60.0


class Outside:
    """Sends the present state of one body; call :meth:`frame` for each packet."""

    def __init__(
        self,
        exchange: Exchange,
        body: Body,
        send: Callable[[bytes], None],
        packets: Packets,
        frames: VideoFrames,
    ) -> None:
        self._aircraft = Aircraft(body, exchange.schema.plants)
        self._picture, self._said = Picture(exchange), RunState(exchange)
        self._send, self._packets, self._frames = send, packets, frames

    def frame(self) -> bool:
        """Wait for the next frame and send its packet; false if no state is available yet."""
        due = self._frames.wait(lambda: None)
        self._said.look()
        self._picture.look()
        if not self._picture.complete:
            return False
        standing = bool(self._said["standing"] or self._said["ended"])
        ahead = 0 if standing else int(self._frames.period.ns)
        flown = self._aircraft.at(self._picture.at(due, ahead))
        if flown is None:
            return False
        self._send(self._packets.of(flown))
        return True


def serve(exchange: Exchange, outside: Outside, over: threading.Event) -> None:
    """Send until the run ends, or ``over`` is set."""
    while not (over.is_set() or exchange.over):
        outside.frame()


def frames(clock: Clock | None = None) -> VideoFrames:
    if clock is not None:
        return VideoFrames(RATE_HZ, clock)
    return VideoFrames(RATE_HZ, WallClock(spin_ns=0), WallClock(spin_ns=0))


def main(arguments: Sequence[str] | None = None) -> int:
    """Send until the standard input closes; then print the numbers of packets as JSON."""
    parser = argparse.ArgumentParser(prog="rtsim.pilot.flightgear")
    parser.add_argument("shared", type=Path)
    parser.add_argument("address", type=Address.of)
    parser.add_argument("body", type=lambda text: Body.from_plain(json.loads(text)))
    parser.add_argument("--version", type=int, choices=VERSIONS, default=VERSIONS[0])
    given = parser.parse_args(arguments)
    over = input_closed()
    with request(SchedulingRequest.window()):
        try:
            shared = Shared.open(given.shared)
            sender = Sender(given.address)
            outside = Outside(shared, given.body, sender.send, Packets(given.version), frames())
        except RtsimError as error:
            print(error, flush=True)
            return 2
        print(READY, flush=True)
        serve(shared, outside, over)
    sender.close()
    if over.is_set():  # a killed simulation has not removed the file
        shared.remove()
    print(json.dumps({"sent": sender.sent, "lost": sender.lost}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

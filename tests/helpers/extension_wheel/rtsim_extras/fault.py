"""A kind of fault: a message arrives several times."""

from __future__ import annotations

from rtsim.engine.faults.at_messages import Delays, MessageFault
from rtsim.engine.faults.kind import Parameter


class Echo(MessageFault):
    """The message arrives ``copies`` times more, 1 ms apart."""

    name = "echo"
    does = "is echoed"
    parameters = (Parameter("copies", "natural"),)

    def spoil(self, delays: Delays) -> Delays:
        more = range(1, int(self.fault.parameters["copies"]) + 1)
        return delays + tuple(d + k * 1_000_000 for d in delays for k in more)

"""The requests of clients to a gateway, with a protocol version; each request is checked.

A request is a map ``{"v": 3, "id": n, "do": ..., ...}``.  The answer has the same ``id`` and a flag
``ok``; if ``ok`` is false, ``error`` has the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rtsim.core.errors import RtsimError
from rtsim.core.net.messagepack import EncodingError, Limits, unpack

VERSION = 3
DO = ("hello", "status", "get", "watch", "command")
MOST_NAMES = 1000
_LIMITS = Limits(depth=6, values=20_000, extensions=False)


class RequestError(RtsimError):
    """A request is malformed or refused; ``number`` is its id, or -1 if it has none."""

    def __init__(self, text: str, number: int = -1) -> None:
        super().__init__(text)
        self.number = number


@dataclass(frozen=True)
class ClientRequest:
    """A well-formed request; its names are not checked against the run yet."""

    number: int
    do: str
    names: tuple[str, ...] = ()
    rate_hz: float = 0.0
    command: Mapping[str, Any] = field(default_factory=dict)
    initiated_ns: int = 0


def read_request(data: bytes) -> ClientRequest:
    """Return the request in untrusted bytes; raises :class:`RequestError` if it is malformed."""
    try:
        said = unpack(data, _LIMITS)
    except EncodingError as error:
        raise RequestError(str(error)) from None
    if not isinstance(said, dict):
        raise RequestError("a request must be a map")
    number = said.get("id", -1)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**63:
        raise RequestError("a request must have an id, an integer >= 0")
    if type(said.get("v")) is not int or said["v"] != VERSION:
        raise RequestError(
            f"the request has protocol version {said.get('v')!r:.20}; this run needs version "
            f"{VERSION}",
            number,
        )
    do = said.get("do")
    if not isinstance(do, str) or do not in DO:
        raise RequestError(f"unknown request {do!r:.40}; known: {', '.join(DO)}", number)
    names = said.get("names", [])
    if not isinstance(names, list) or len(names) > MOST_NAMES:
        raise RequestError(f"names must be a list of at most {MOST_NAMES} names", number)
    if not all(isinstance(n, str) and len(n) <= 200 for n in names):
        raise RequestError("each name must be a text of at most 200 characters", number)
    rate = said.get("rate", 0.0)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1000:
        raise RequestError("rate must be a number from 0 to 1000, Hz", number)
    command = said.get("command", {})
    if not isinstance(command, dict):
        raise RequestError("command must be a map", number)
    initiated = said.get("initiated", 0)
    if isinstance(initiated, bool) or not isinstance(initiated, int) or abs(initiated) >= 2**63:
        raise RequestError("initiated must be an integer number of ns", number)
    return ClientRequest(number, str(do), tuple(names), float(rate), command, initiated)

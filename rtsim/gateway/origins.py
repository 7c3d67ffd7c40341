"""Checks which web pages may watch a run.

A browser names the site of a page in the header ``Origin``. Without this check, any page that is
open in a browser of this machine could connect to the run and send the run's data anywhere. The
check works for browsers only, because other programs can send any origin, or none.
"""

from __future__ import annotations

import io
import ipaddress
from collections.abc import Iterable
from http.client import HTTPException, parse_headers
from urllib.parse import urlsplit

from rtsim.core.errors import ScenarioError

OPTION = "--foxglove-origin"
KNOWN = ("https://app.foxglove.dev", "file://")
"""The origins of Foxglove in a browser and of the Foxglove desktop program."""
LONGEST_HEAD = 1 << 14


def read_origins(given: Iterable[str]) -> tuple[str, ...]:
    """Return origins as browsers write them: scheme and host, in lower case."""
    out = []
    for text in given:
        parts = urlsplit(text.rstrip("/"))
        if not parts.scheme or not parts.netloc or parts.path or parts.query:
            raise ScenarioError(
                f"{OPTION} {text!r} is not an origin; write https://HOST or https://HOST:PORT"
            )
        out.append(f"{parts.scheme}://{parts.netloc}".lower())
    return tuple(out)


class OriginCheck:
    """Accepts or refuses the request that opens a connection.

    ``more`` lists the allowed origins besides :data:`KNOWN` and this machine.
    """

    def __init__(self, more: Iterable[str] = ()) -> None:
        self._may = {*KNOWN, *read_origins(more)}

    def is_complete(self, said: bytes | bytearray) -> bool:
        """Return whether the head of the request is complete or too long."""
        return said.find(b"\r\n\r\n") >= 0 or len(said) > LONGEST_HEAD

    def objection(self, said: bytes | bytearray) -> str:
        """Return why the request is refused, or an empty text if it is accepted."""
        head, end, _ = bytes(said).partition(b"\r\n\r\n")
        if not end:
            return f"the head of the request is longer than {LONGEST_HEAD} bytes"
        _, _, lines = head.partition(b"\r\n")
        try:
            origins = parse_headers(io.BytesIO(lines + b"\r\n\r\n")).get_all("Origin") or []
        except (HTTPException, ValueError) as error:
            return f"the request cannot be read ({error})"
        foreign = [origin for origin in origins if not self._is_known(origin.strip().lower())]
        if not foreign:
            return ""
        return (
            f"a page of {foreign[0][:200]} may not watch this run; to allow it, start the run "
            f"with {OPTION} ORIGIN"
        )

    def _is_known(self, origin: str) -> bool:
        if origin in self._may:
            return True
        try:
            parts = urlsplit(origin)
            host = parts.hostname or ""
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and _is_this_machine(host)


def refusal(why: str) -> bytes:
    """Return the HTTP answer that refuses a connection with the reason ``why``."""
    text = f"rtsim: {why}\n".encode("ascii", "replace")
    head = (
        "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\n"
        f"Content-Length: {len(text)}\r\n\r\n"
    )
    return head.encode() + text


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False

"""Which web pages may watch: a browser says in ``Origin`` whose page it is that connects.

Without this any page that is open in a browser of this machine could connect to the run and send
what it sees anywhere.  What is no browser, says nothing of an origin, or what it likes.
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
"""Foxglove in a browser, and as a program of its own."""
LONGEST_HEAD = 1 << 14


def read_origins(given: Iterable[str]) -> tuple[str, ...]:
    """As a browser writes them: scheme and host, in small letters."""
    out = []
    for text in given:
        parts = urlsplit(text.rstrip("/"))
        if not parts.scheme or not parts.netloc or parts.path or parts.query:
            raise ScenarioError(
                f"{OPTION} {text!r} is no origin; write it as the browser does: https://HOST[:PORT]"
            )
        out.append(f"{parts.scheme}://{parts.netloc}".lower())
    return tuple(out)


class Door:
    """Lets in what begins a connection, or says why not.  ``more``: origins that may watch too."""

    def __init__(self, more: Iterable[str] = ()) -> None:
        self._may = {*KNOWN, *read_origins(more)}

    def whole(self, said: bytes | bytearray) -> bool:
        """All of a request's head is there."""
        return said.find(b"\r\n\r\n") >= 0 or len(said) > LONGEST_HEAD

    def against(self, said: bytes | bytearray) -> str:
        """Why this request is refused; empty where it is not."""
        head, end, _ = bytes(said).partition(b"\r\n\r\n")
        if not end:
            return "a request without an end"
        _, _, lines = head.partition(b"\r\n")
        try:
            origins = parse_headers(io.BytesIO(lines + b"\r\n\r\n")).get_all("Origin") or []
        except (HTTPException, ValueError) as error:
            return f"a request that cannot be read ({error})"
        foreign = [origin for origin in origins if not self._is_known(origin.strip().lower())]
        if not foreign:
            return ""
        return f"a page of {foreign[0][:200]} may not watch; for one that may: {OPTION} ORIGIN"

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
    """As HTTP answers it."""
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

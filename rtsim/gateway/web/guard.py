"""Check the token, ``Host`` and ``Origin`` of each request to the web page.

viser's server has none of these checks, and it listens at a port that every user of this machine
can reach. The function :func:`guarded_server` makes viser serve at a socket of rtsim, so that
:class:`Guard` checks each request before viser. viser's server has no other port, and
:class:`Guard` checks every path (docs/decisions/148).
"""

from __future__ import annotations

import hmac
import http
import logging
import socket
import types
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import viser
import viser.infra._infra as infra
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers, MultipleValuesError
from websockets.http11 import Request, Response

from rtsim.core.errors import RtsimError
from rtsim.gateway.addresses import is_this_machine

MOST_VIEWERS = 64
MOST_ASKED = 1 << 20
_WRITE_LIMIT = 1 << 18
"""Bytes that may wait for one browser. Beyond this limit, newer updates replace older ones."""
_CLOSED_S = 1.0
Answering = Callable[[ServerConnection, Request], Response | None]

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' 'wasm-unsafe-eval' blob:; "
    "worker-src blob:; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; "
    "connect-src 'self' data: blob: ws://{host}; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'"
)
"""The page may contact this server only, and no other page may show it in a frame."""


class Guard:
    """Checks each request before viser answers it. ``token`` is the first part of each path."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self.refused = 0
        self.opened = 0
        """Number of browsers that have opened the page so far."""

    def objection(self, request: Request) -> str:
        """Return why ``request`` is rejected, or "".

        A browser reports the site of a page in ``Origin``. An attacker can use a host name that
        resolves to this machine. The ``Host`` of such a request is not a loopback address.
        """
        try:
            host = request.headers.get("Host", "")
            origin = request.headers.get("Origin")
        except MultipleValuesError:
            return "the request repeats a header"
        if not _is_loopback(host):
            return f"{host[:100]!r} is not an address of this machine"
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            return f"a page of {origin[:100]!r} may not open this page"
        given = request.path.partition("?")[0].strip("/").partition("/")[0]
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self._token):
            return "the address has no valid token; open the address that rtsim printed"
        return ""

    def admit(self, answer: Answering, server: Server) -> Answering:
        """Return a request handler that checks each request before it calls ``answer``."""

        def checked(connection: ServerConnection, request: Request) -> Response | None:
            if why := self.objection(request):
                self.refused += 1
                return _response(http.HTTPStatus.FORBIDDEN, f"rtsim: {why}\n")
            path, mark, query = request.path.partition("?")
            inner = path.removeprefix(f"/{self._token.decode()}")
            opens = request.headers.get("Upgrade", "").lower() == "websocket"
            if opens and len(server.connections) >= MOST_VIEWERS:
                self.refused += 1
                why = f"rtsim: {MOST_VIEWERS} browsers show this page already\n"
                return _response(http.HTTPStatus.SERVICE_UNAVAILABLE, why)
            if not opens and not inner:
                return _response(http.HTTPStatus.FOUND, "", Location=f"{path}/{mark}{query}")
            self.opened += opens
            request.path = f"{inner or '/'}{mark}{query}"
            response = answer(connection, request)
            if response is not None:
                _harden(response.headers, request.headers["Host"])
            return response

        return checked


def _is_loopback(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return is_this_machine(name)


def _response(status: http.HTTPStatus, text: str, **headers: str) -> Response:
    body = text.encode("ascii", "replace")
    more = {**headers, "Content-Type": "text/plain", "Content-Length": str(len(body))}
    return Response(status, status.phrase, Headers(**more), body)


def _harden(headers: Headers, host: str) -> None:
    headers["Content-Security-Policy"] = _POLICY.format(host=host)
    headers["Referrer-Policy"] = "no-referrer"
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Cache-Control"] = "no-store"
    headers["Cross-Origin-Resource-Policy"] = "same-origin"


def guarded_server(listener: socket.socket, guard: Guard, label: str) -> viser.ViserServer:
    """Return viser's server at ``listener``, behind ``guard``.

    viser passes its handlers to ``websockets.asyncio.server.serve``. While viser starts,
    :func:`_serve_at` replaces this function. If viser did not call the replacement,
    :class:`RtsimError` is raised, because the server would be open to every user of this machine.
    """
    logging.getLogger("websockets.server").setLevel(logging.CRITICAL)  # refusals are not errors
    with _serve_at(listener, guard) as called:
        server = viser.ViserServer(host="127.0.0.1", port=0, label=label, verbose=False)
    server.request_share_url = _not_shared
    if not called:
        server.stop()
        raise RtsimError(
            f"viser {viser.__version__} starts its server in an unknown way, so that rtsim cannot "
            "check who opens the page; install viser 1.1: pip install 'rtsim[web]'"
        )
    return server


def _not_shared(verbose: bool = True) -> None: ...


@contextmanager
def _serve_at(listener: socket.socket, guard: Guard) -> Any:
    called: list[bool] = []

    def ours(handler: Any, host: Any, port: Any, **options: Any) -> serve:  # noqa: ARG001
        called.append(True)
        answer: Answering = options["process_request"]
        options |= {"max_size": MOST_ASKED, "write_limit": _WRITE_LIMIT, "close_timeout": _CLOSED_S}
        out = serve(handler, sock=listener, **options)
        out.server.process_request = guard.admit(answer, out.server)
        return out

    known = infra.websockets
    server = types.SimpleNamespace(serve=ours, ServerConnection=ServerConnection)
    infra.websockets = types.SimpleNamespace(
        asyncio=types.SimpleNamespace(server=server),
        exceptions=known.exceptions,
        datastructures=known.datastructures,
    )
    try:
        yield called
    finally:
        infra.websockets = known

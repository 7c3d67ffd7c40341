"""Links from the runtime to a worker: their names, their interface, and the one over ZeroMQ.

:mod:`hitl.worker.shared` has the link over memory that both processes share.

Only this module and :mod:`rtsim.core.net.sockets` import zmq.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import zmq
from zmq.utils.monitor import parse_monitor_message

from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError, ScenarioError, UnknownName
from rtsim.core.net.keys import Keys
from rtsim.core.net.sockets import LINGER_MS, MOST_BYTES, TROUBLE, check_address, feel

LOOK_NS = 20_000_000
"""Longest single wait for a message, ns; a longer wait is divided."""
_NS_PER_MS = 1_000_000
_LOST = zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
_REFUSED = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


class WorkerLink:
    """A connection to one worker or server, which sends and receives one message at a time."""

    def __init__(self, kind: int = zmq.PAIR) -> None:
        self._folder: Path | None = None
        self._context = zmq.Context(io_threads=1)
        self._socket: zmq.Socket[bytes] = self._context.socket(kind)
        self._socket.setsockopt(zmq.LINGER, LINGER_MS)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES)
        self._socket.setsockopt(zmq.RCVTIMEO, LOOK_NS // _NS_PER_MS)
        self._news = self._socket.get_monitor_socket(_LOST | _REFUSED | zmq.EVENT_CONNECTED)
        self._lost = False
        self.reached = False
        """True if the other end has been connected."""
        self.refused = False
        """True if the other end does not accept the keys of this end."""
        self.endpoint = ""

    @classmethod
    def local(cls) -> WorkerLink:
        """Return a link bound to a socket file that only this user can reach.

        :meth:`hide` removes the file.  Raises :class:`ControllerError` if it cannot be made.
        """
        link = cls()
        try:
            link._folder = Path(tempfile.mkdtemp(prefix="rtsim-"))
            link.endpoint = f"ipc://{link._folder}/worker"
            link._socket.bind(link.endpoint)
        except TROUBLE as error:
            link.close()
            raise ControllerError(
                f"cannot make a socket in {tempfile.gettempdir()}: {error}; set TMPDIR to another "
                "folder with a short path"
            ) from None
        return link

    @classmethod
    def to(cls, endpoint: str, keys: Keys | None = None) -> WorkerLink:
        """Return a link connected to the server at ``tcp://HOST:PORT``, encrypted with ``keys``.

        Raises :class:`ScenarioError` for a wrong address or wrong keys.
        """
        check_address(endpoint, encrypted=keys is not None)
        link = cls(zmq.DEALER)
        link.endpoint = endpoint
        with link._closed_on_error():
            feel(link._socket)
            if keys is not None:
                link._socket.curve_serverkey = keys.server.encode()
                link._socket.curve_publickey = keys.public.encode()
                link._socket.curve_secretkey = keys.secret.encode()
            link._socket.connect(endpoint)
        return link

    @contextlib.contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except TROUBLE as error:
            self.close()
            raise ScenarioError(f"{self.endpoint}: {error}") from None

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """The socket, for callers that wait for several sockets at once."""
        return self._socket

    def hide(self) -> None:
        """Remove the socket file, which is not needed once both ends are connected."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def send(self, data: bytes | memoryview) -> bool:
        """Send ``data``; return False if the other end is gone or its queue is full."""
        try:
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            raise ControllerError(f"{self.endpoint}: {error}") from None
        return True

    def receive(self, until_ns: int = 0) -> bytes | None:
        """Return the next message, or ``None`` if none arrived.

        Waits at most :data:`LOOK_NS`, and at most until ``until_ns`` of the stopwatch.  Returns at
        once if this time has passed.  Waits below 1 ms, the resolution of zmq, spin instead of
        sleeping.
        """
        try:
            rest = until_ns - stopwatch() if until_ns else 0
            if rest >= LOOK_NS:
                return self._socket.recv()
            if rest >= _NS_PER_MS:
                self._socket.poll(rest // _NS_PER_MS)
            while stopwatch() < until_ns:
                with contextlib.suppress(zmq.Again):
                    return self._socket.recv(zmq.NOBLOCK)
            return self._socket.recv(zmq.NOBLOCK)
        except zmq.Again:
            return None
        except zmq.ZMQError as error:
            raise ControllerError(f"{self.endpoint}: {error}") from None

    def lost(self) -> bool:
        """Return True if the other end was connected and has disconnected."""
        while self._news.poll(0):
            event = parse_monitor_message(self._news.recv_multipart())["event"]
            if event == zmq.EVENT_CONNECTED:
                self.reached = True
            self.refused = self.refused or bool(event & _REFUSED)
            self._lost = self._lost or event == zmq.EVENT_DISCONNECTED
        return self._lost

    def close(self) -> None:
        self._socket.disable_monitor()
        self._news.close()
        self._socket.close()
        self._context.term()
        self.hide()


def libzmq() -> Path:
    """Return the path of pyzmq's libzmq, which the worker loads, too."""
    spec = importlib.util.find_spec("zmq")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    for folder, pattern in (
        (package.parent / "pyzmq.libs", "libzmq*"),
        (package / ".dylibs", "libzmq*"),
    ):
        if found := sorted(folder.glob(pattern)):
            return found[0]
    return Path("libzmq.so.5" if sys.platform != "darwin" else "libzmq.5.dylib")  # the system's own


SHM, ZMQ = "shm", "zmq"
LINKS = (SHM, ZMQ)
"""Names of the links: shared memory, and ZeroMQ."""


class Link(Protocol):
    """A connection to one worker, which sends and receives one message at a time."""

    endpoint: str
    """What the worker is given to connect to, and the link's name in error messages."""

    def hide(self) -> None:
        """Remove what is needed only until both ends are connected."""
        ...

    def send(self, data: bytes | memoryview) -> bool:
        """Send ``data``; return False if the other end is gone or its queue is full."""
        ...

    def receive(self, until_ns: int = 0) -> bytes | None:
        """Return the next message, or ``None`` if none arrived.

        Waits for a short time, at most until ``until_ns`` of the stopwatch.
        """
        ...

    def lost(self) -> bool:
        """Return True if the other end was connected and has disconnected."""
        ...

    def close(self) -> None: ...


def chosen_link(asked: str | None, library: Path, *, ours: bool, served: bool) -> str:
    """Return the link to use: ``asked``, or by default shared memory where it is possible.

    ``library`` is the runtime's end of shared memory in the worker's build.  ``ours`` is true if
    the worker is a build of rtsim; another program may know ZeroMQ only.  ``served`` is true if the
    worker is behind ``rtsim sil serve``.  Raises :class:`ScenarioError` if ``asked`` is impossible.
    """
    if asked not in (None, *LINKS):
        raise UnknownName("link", asked, list(LINKS), "a worker")
    if served:
        if asked == SHM:
            raise ScenarioError(
                "a worker behind 'rtsim sil serve' cannot share memory with this process; use "
                "--link zmq"
            )
        return ZMQ
    shares = hasattr(os, "memfd_create") and library.is_file()
    if asked == SHM and not shares:
        raise ScenarioError(
            "the link over shared memory needs Linux, and a worker that was built on this "
            "machine; use --link zmq"
        )
    return asked or (SHM if ours and shares else ZMQ)

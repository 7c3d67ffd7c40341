"""The ZeroMQ end that the runtime holds: a socket, bound or connected, and its libzmq.

Beside :mod:`rtsim.core.net.sockets` the only module that imports zmq.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import zmq
from zmq.utils.monitor import parse_monitor_message

from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.net.keys import Keys
from rtsim.core.net.sockets import LINGER_MS, MOST_BYTES, TROUBLE, check_address, feel

LOOK_NS = 20_000_000
"""A wait for a message is made of pieces of this length."""
_NS_PER_MS = 1_000_000
_LOST = zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
_REFUSED = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


class WorkerLink:
    """A message at a time, from one other end."""

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
        """Somebody has been at the other end."""
        self.refused = False
        """Somebody is there and does not take our keys."""
        self.endpoint = ""

    @classmethod
    def local(cls) -> WorkerLink:
        """Bound to a socket file that only this user can reach; :meth:`hide` removes it."""
        link = cls()
        try:
            link._folder = Path(tempfile.mkdtemp(prefix="rtsim-"))
            link.endpoint = f"ipc://{link._folder}/worker"
            link._socket.bind(link.endpoint)
        except TROUBLE as error:
            link.close()
            raise ControllerError(
                f"no socket in {tempfile.gettempdir()}: {error}; set TMPDIR to another, short path"
            ) from None
        return link

    @classmethod
    def to(cls, endpoint: str, keys: Keys | None = None) -> WorkerLink:
        """Connected to what serves at ``tcp://HOST:PORT``."""
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
        """For who waits at several."""
        return self._socket

    def hide(self) -> None:
        """Both ends hold the connection: the file is no longer needed, and never left behind."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def send(self, data: bytes | memoryview) -> bool:
        """False where the other end takes nothing (it is gone, or its queue is full)."""
        try:
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            raise ControllerError(f"{self.endpoint}: {error}") from None
        return True

    def receive(self, until_ns: int = 0) -> bytes | None:
        """The next message, or ``None``: it waits a piece of time, at most to ``until_ns``.

        Without a deadline ahead it does not wait.  zmq counts in ms; what is shorter is spun.
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
        """Whether the other end, once there, has let go of the connection."""
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
    """The shared library that pyzmq brings; the worker loads the same."""
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

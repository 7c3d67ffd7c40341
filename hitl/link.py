"""The ZeroMQ end that the runtime holds: one PAIR socket, bound or connected, and its libzmq.

The only module that imports zmq.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import zmq

from rtsim.clock import stopwatch
from rtsim.errors import ControllerError, ScenarioError

_LINGER_MS = 200
_MOST_BYTES = 64 << 20
"""Nothing longer is taken from a socket; a message's own bound is far below."""
_NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class Keys:
    """CURVE keys (Z85 text) of this end, and the public one of the other."""

    public: str
    secret: str
    server: str

    @classmethod
    def pair(cls) -> tuple[Keys, Keys]:
        """New ones for the end that binds and the end that connects."""
        (bound, bound_secret), (joined, joined_secret) = zmq.curve_keypair(), zmq.curve_keypair()
        server = bound.decode()
        return (
            Keys(server, bound_secret.decode(), server),
            Keys(joined.decode(), joined_secret.decode(), server),
        )


class Link:
    """A message at a time, never blocking but in :meth:`wait`."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.PAIR)
        self._socket.setsockopt(zmq.LINGER, _LINGER_MS)
        self._socket.setsockopt(zmq.MAXMSGSIZE, _MOST_BYTES)
        self.endpoint = ""

    @classmethod
    def local(cls) -> Link:
        """Bound to a socket file that only this user can reach; :meth:`hide` removes it."""
        link = cls()
        link._folder = Path(tempfile.mkdtemp(prefix="rtsim-"))
        link.endpoint = f"ipc://{link._folder}/worker"
        link._socket.bind(link.endpoint)
        return link

    @classmethod
    def to(cls, endpoint: str, keys: Keys | None = None) -> Link:
        """Connected to a worker that serves at ``tcp://HOST:PORT``."""
        check_endpoint(endpoint, keys)
        link = cls()
        link.endpoint = endpoint
        if keys is not None:
            link._socket.curve_serverkey = keys.server.encode()
            link._socket.curve_publickey = keys.public.encode()
            link._socket.curve_secretkey = keys.secret.encode()
        link._socket.connect(endpoint)
        return link

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

    def receive(self) -> bytes | None:
        """The next message, or ``None``."""
        try:
            return self._socket.recv(zmq.NOBLOCK)
        except zmq.Again:
            return None
        except zmq.ZMQError as error:
            raise ControllerError(f"{self.endpoint}: {error}") from None

    def wait(self, until_ns: int) -> bool:
        """Wait for a message at most until ``until_ns`` of the stopwatch; whether one is there."""
        rest = until_ns - stopwatch()
        if rest >= _NS_PER_MS and self._socket.poll(rest // _NS_PER_MS):
            return True
        while stopwatch() < until_ns:  # zmq counts in ms; what is left is shorter
            if self._socket.poll(0):
                return True
        return bool(self._socket.poll(0))

    def close(self) -> None:
        self._socket.close()
        self._context.term()
        self.hide()


def check_endpoint(endpoint: str, keys: Keys | None) -> None:
    """``tcp://HOST:PORT``; beyond loopback only with keys."""
    scheme, _, rest = endpoint.partition("://")
    host, _, port = rest.rpartition(":")
    if scheme != "tcp" or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ScenarioError(f"endpoint {endpoint!r}; write tcp://HOST:PORT")
    if host not in ("127.0.0.1", "localhost", "[::1]") and keys is None:
        raise ScenarioError(
            f"{endpoint} is beyond this machine, and the link has no keys; give --keys FILE "
            "(rtsim sil serve writes one)"
        )


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

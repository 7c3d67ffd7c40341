"""ZeroMQ sockets that many may come to, and what all sockets of ours keep to.

Nothing listens beyond this machine unless it was asked to and has keys.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import zmq
from zmq.auth.thread import ThreadAuthenticator

from rtsim.errors import ScenarioError
from rtsim.keys import CLIENT, Keys

MOST_BYTES = 1 << 20
"""Nothing longer is taken from a socket."""
LINGER_MS = 200
TROUBLE = (OSError, zmq.ZMQError)
_HEARTBEAT_MS, _SILENT_PEER_MS = 1000, 3000
"""Over TCP: how often the other end is felt for, and when it counts as gone."""
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class Listener:
    """Bound at ``tcp://HOST:PORT``, or :meth:`local`: many may come, each has a name."""

    def __init__(self, endpoint: str, keys: Keys | None = None) -> None:
        check_address(endpoint, encrypted=keys is not None)
        self._open()
        try:
            feel(self._socket)
            if keys is not None:
                self._admit_only(keys)
                self._socket.curve_server = True
                self._socket.curve_publickey = keys.public.encode()
                self._socket.curve_secretkey = keys.secret.encode()
            self._bind(endpoint)
        except TROUBLE as error:
            self.close()
            raise ScenarioError(f"cannot serve at {endpoint}: {error}") from None

    def _open(self) -> None:
        self._folder: Path | None = None
        self._gate: ThreadAuthenticator | None = None
        self._context = zmq.Context(io_threads=1)
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, LINGER_MS)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # who is gone shows when sent to

    def _bind(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._socket.bind(endpoint)

    @classmethod
    def local(cls) -> Listener:
        """At a socket file in a new folder that only this user can reach.

        Never at a path that somebody gives: libzmq removes whatever file it finds there.
        """
        self = cls.__new__(cls)
        self._open()
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="rtsim-"))
            self._bind(f"ipc://{self._folder}/run")
        except TROUBLE as error:
            self.close()
            raise ScenarioError(
                f"no socket in {tempfile.gettempdir()}: {error}; set TMPDIR to another, short path"
            ) from None
        return self

    def _admit_only(self, keys: Keys) -> None:
        """Whoever knows the server's public key can encrypt; only the client's own is let in."""
        if not keys.client:
            raise ScenarioError("these keys name no client: take those of: rtsim keys FILE")
        self._gate = ThreadAuthenticator(self._context)
        self._gate.start()
        self._gate.configure_curve_callback(credentials_provider=_Only(keys.client))

    def receive(self) -> tuple[bytes, bytes] | None:
        """Who says what, or ``None``."""
        try:
            parts = self._socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None
        return parts[0], parts[-1]

    def send(self, who: bytes, data: bytes | memoryview) -> bool:
        """False where nobody of that name is there any more."""
        try:
            self._socket.send_multipart((who, data), zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """For who waits at several."""
        return self._socket

    def wait(self, milliseconds: int, *others: zmq.Socket[bytes] | int) -> None:
        """Until somebody says something, here or at one of ``others`` (sockets, file numbers)."""
        poller = zmq.Poller()
        for socket in (self._socket, *others):
            poller.register(socket, zmq.POLLIN)
        poller.poll(milliseconds)

    def close(self) -> None:
        self._socket.close()
        if self._gate is not None:
            self._gate.stop()
        self._context.term()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class Caller:
    """The other end of a :class:`Listener`; a message at a time."""

    def __init__(self, endpoint: str, keys: Keys | None = None) -> None:
        if not endpoint.startswith("ipc://"):
            check_address(endpoint, encrypted=keys is not None)
        self.endpoint = endpoint
        self._context = zmq.Context(io_threads=1)
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, LINGER_MS)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES)
        # With a full queue libzmq 4.3 aborts the process at the heartbeat after the peer has gone.
        self._socket.setsockopt(zmq.RCVHWM, 0)
        try:
            feel(self._socket)
            if keys is not None:
                self._socket.curve_serverkey = keys.server.encode()
                self._socket.curve_publickey = keys.public.encode()
                self._socket.curve_secretkey = keys.secret.encode()
            self._socket.connect(endpoint)
        except TROUBLE as error:
            self.close()
            raise ScenarioError(f"{endpoint}: {error}") from None

    def send(self, data: bytes) -> bool:
        """False where the other end takes nothing."""
        try:
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    def receive(self, milliseconds: int) -> bytes | None:
        """The next message, waited for at most so long."""
        try:
            if not self._socket.poll(milliseconds):
                return None
            return self._socket.recv(zmq.NOBLOCK)
        except zmq.ZMQError:
            return None

    def close(self) -> None:
        self._socket.close()
        self._context.term()


class Broadcast:
    """To whoever subscribes, on this machine: two frames, topic and message; never waits."""

    def __init__(self, endpoint: str) -> None:
        check_address(endpoint, encrypted=False)
        self._context = zmq.Context(io_threads=1)
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.PUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.XPUB_NODROP, 1)  # otherwise it drops in silence
        try:
            self._socket.bind(endpoint)
        except TROUBLE as error:
            self.close()
            raise ScenarioError(f"cannot serve at {endpoint}: {error}") from None

    def send(self, topic: str, data: bytes) -> bool:
        """False where somebody who subscribes is too slow for it: then nobody is sent this."""
        try:
            self._socket.send_multipart((topic.encode(), data), zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()
        self._context.term()


class _Only:
    """Admits one key."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def callback(self, domain: str, key: bytes) -> bool:  # noqa: ARG002
        return key == self._key


def feel(socket: zmq.Socket[bytes]) -> None:
    """A peer that vanished without a word is noticed."""
    socket.setsockopt(zmq.HEARTBEAT_IVL, _HEARTBEAT_MS)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, _SILENT_PEER_MS)
    socket.setsockopt(zmq.HANDSHAKE_IVL, _SILENT_PEER_MS)


def key_pair() -> tuple[str, str]:
    """A new CURVE key: public and secret, as Z85 text."""
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


def keys_of(path: Path) -> Keys:
    """The server's keys in ``path``; new ones there, and the client's beside it, where none are."""
    if not path.exists():
        (public, secret), (theirs, their_secret) = key_pair(), key_pair()
        Keys(public, secret, public, theirs).save(path)
        Keys(theirs, their_secret, public).save(path.with_name(path.name + CLIENT))
    return Keys.load(path)


def check_address(endpoint: str, encrypted: bool) -> None:
    """``tcp://HOST:PORT``; beyond loopback only with keys."""
    scheme, _, rest = endpoint.partition("://")
    host, _, port = rest.rpartition(":")
    if scheme != "tcp" or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ScenarioError(f"endpoint {endpoint!r}; write tcp://HOST:PORT")
    if host not in _LOOPBACK and not encrypted:
        raise ScenarioError(
            f"{endpoint} is beyond this machine, and the link has no keys; give --keys FILE "
            "(rtsim keys FILE writes one, and FILE.client for who connects)"
        )

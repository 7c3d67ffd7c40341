"""ZeroMQ sockets that many may come to, and what all sockets of ours keep to.

Nothing listens beyond this machine unless it was asked to and has keys.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import zmq
from zmq.auth.thread import ThreadAuthenticator

from rtsim.core.errors import ScenarioError
from rtsim.core.net.keys import CLIENT, Keys

MOST_BYTES = 1 << 20
"""Nothing longer is taken from a socket."""
LINGER_MS = 200
TROUBLE = (OSError, zmq.ZMQError)
MOST_QUEUED = 256
"""Messages that wait for one peer, or from it."""
_FEEL_S, _SILENT_PEER_S = 1, 3
"""Over TCP: how often the other end is felt for, and when it counts as gone."""
_PARTS_AT_ONCE = 1000
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class ListeningSocket:
    """Bound at ``tcp://HOST:PORT``, or :meth:`local`: many may come, each has a name."""

    def __init__(
        self, endpoint: str, keys: Keys | None = None, most_bytes: int = MOST_BYTES
    ) -> None:
        """Who sends more than ``most_bytes`` in one message is cut off."""
        check_address(endpoint, encrypted=keys is not None)
        self._open()
        self._socket.setsockopt(zmq.MAXMSGSIZE, min(most_bytes, MOST_BYTES))
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
        self._parts = _Parts(self._socket, named=True)
        _bound(self._socket)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # who is gone shows when sent to

    def _bind(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._socket.bind(endpoint)

    @classmethod
    def local(cls) -> ListeningSocket:
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
        """Who says what, or ``None``; nothing where it is no message of one part."""
        return self._parts.receive()

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
    """The other end of a :class:`ListeningSocket`; a message at a time."""

    def __init__(self, endpoint: str, keys: Keys | None = None) -> None:
        if not endpoint.startswith("ipc://"):
            check_address(endpoint, encrypted=keys is not None)
        self.endpoint = endpoint
        self._context = zmq.Context(io_threads=1)
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.DEALER)
        self._parts = _Parts(self._socket, named=False)
        _bound(self._socket)
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
        """The next message, waited for at most so long; empty where it has several parts."""
        try:
            if not self._socket.poll(milliseconds):
                return None
            said = self._parts.receive()
        except zmq.ZMQError:
            return None
        return None if said is None else said[1]

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


class _Parts:
    """Takes messages of one part from a socket, behind the name of who sent it where it has one.

    libzmq bounds a part and not how many there are.  Of a message of several nothing is kept, and
    no more than so many are looked at in one go.
    """

    def __init__(self, socket: zmq.Socket[bytes], named: bool) -> None:
        self._socket, self._first = socket, 0 if named else 1
        self._at, self._who, self._data = self._first, b"", b""

    def receive(self) -> tuple[bytes, bytes] | None:
        """Who and what; ``None`` where no message is there, whole."""
        for _ in range(_PARTS_AT_ONCE):
            try:
                part = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return None
            if self._at == 0:
                self._who = part
            else:
                self._data = part if self._at == 1 else b""
            self._at += 1
            if not self._socket.getsockopt(zmq.RCVMORE):
                said = self._who, self._data
                self._at, self._who, self._data = self._first, b"", b""
                return said
        return None


class _Only:
    """Admits one key."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def callback(self, domain: str, key: bytes) -> bool:  # noqa: ARG002
        return key == self._key


def _bound(socket: zmq.Socket[bytes]) -> None:
    """Nobody at the other end makes it hold more than that."""
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES)
    socket.setsockopt(zmq.RCVHWM, MOST_QUEUED)
    socket.setsockopt(zmq.SNDHWM, MOST_QUEUED)


def feel(socket: zmq.Socket[bytes]) -> None:
    """A peer that vanished without a word is noticed, by TCP itself.

    Not by ZeroMQ's heartbeats: with a full queue libzmq 4.3 aborts the process at the first one
    after the peer has gone.
    """
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, _FEEL_S)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, _FEEL_S)
    socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, _SILENT_PEER_S)
    socket.setsockopt(zmq.TCP_MAXRT, 1000 * _SILENT_PEER_S)  # where something is under way
    socket.setsockopt(zmq.HANDSHAKE_IVL, 1000 * _SILENT_PEER_S)


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


def check_served(endpoint: str, keys: Path | None, without: str) -> Path:
    """``keys``, where whoever comes may command: on loopback too, and they must name a client.

    ``without`` says what is to be done where none are given.
    """
    check_address(endpoint, encrypted=True)
    if keys is None:
        raise ScenarioError(without)
    if not Keys.load(keys).client:
        raise ScenarioError(f"{keys} names no client; make other keys with: rtsim keys FILE")
    return keys

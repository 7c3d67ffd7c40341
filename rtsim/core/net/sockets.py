"""ZeroMQ sockets for servers and clients, with common limits.

Other machines can connect only if the user enables this and provides keys.
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
"""Maximum length of a received message [bytes]."""
LINGER_MS = 200
TROUBLE = (OSError, zmq.ZMQError)
MOST_QUEUED = 256
"""Maximum number of messages in the queue to each peer, and from each peer."""
_FEEL_S, _SILENT_PEER_S = 1, 3
"""TCP keep-alive: interval of probes [s], and silence after which a peer counts as gone [s]."""
_PARTS_AT_ONCE = 1000
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


class ListeningSocket:
    """A server socket for any number of clients, at ``tcp://HOST:PORT`` or at a local file."""

    def __init__(
        self, endpoint: str, keys: Keys | None = None, most_bytes: int = MOST_BYTES
    ) -> None:
        """Listen at the address ``endpoint``, with encryption if ``keys`` are given.

        A client that sends more than ``most_bytes`` in one message is disconnected.
        """
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
            raise ScenarioError(f"cannot listen at {endpoint}: {error}") from None

    def _open(self) -> None:
        self._folder: Path | None = None
        self._gate: ThreadAuthenticator | None = None
        self._context = zmq.Context(io_threads=1)
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.ROUTER)
        self._parts = _Parts(self._socket, named=True)
        _bound(self._socket)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # report messages to peers that are gone

    def _bind(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._socket.bind(endpoint)

    @classmethod
    def local(cls) -> ListeningSocket:
        """Listen at a socket file in a new folder that only the present user can access.

        Users cannot choose the path, because libzmq deletes an existing file at that path.
        """
        self = cls.__new__(cls)
        self._open()
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="rtsim-"))
            self._bind(f"ipc://{self._folder}/run")
        except TROUBLE as error:
            self.close()
            raise ScenarioError(
                f"cannot create a socket in {tempfile.gettempdir()}: {error}; "
                "set TMPDIR to another folder with a short path"
            ) from None
        return self

    def _admit_only(self, keys: Keys) -> None:
        if not keys.client:
            raise ScenarioError(
                "the key file of the server contains no client key; make new keys: rtsim keys FILE"
            )
        self._gate = ThreadAuthenticator(self._context)
        self._gate.start()
        self._gate.configure_curve_callback(credentials_provider=_Only(keys.client))

    def receive(self) -> tuple[bytes, bytes] | None:
        """Return (peer, message), or ``None`` if no message has arrived.

        A message of several parts is returned as an empty message.
        """
        return self._parts.receive()

    def send(self, who: bytes, data: bytes | memoryview) -> bool:
        """Send a message to the client ``who``; return False if it cannot be queued."""
        try:
            self._socket.send_multipart((who, data), zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    @property
    def socket(self) -> zmq.Socket[bytes]:
        """The ZeroMQ socket, with which programs can poll several sockets at once."""
        return self._socket

    def wait(self, milliseconds: int, *others: zmq.Socket[bytes] | int) -> None:
        """Wait at most ``milliseconds`` for a message at this or one of the other sockets.

        ``others`` are sockets or file descriptors.
        """
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
    """A client socket that connects to a :class:`ListeningSocket`."""

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
            raise ScenarioError(f"cannot connect to {endpoint}: {error}") from None

    def send(self, data: bytes) -> bool:
        """Send a message; return False if the server's queue is full."""
        try:
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    def receive(self, milliseconds: int) -> bytes | None:
        """Return the next message, or ``None`` if none arrives within ``milliseconds``.

        A message of several parts is returned as an empty message.
        """
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
    """A publisher for subscribers on this machine, which sends without waiting."""

    def __init__(self, endpoint: str) -> None:
        check_address(endpoint, encrypted=False)
        self._context = zmq.Context(io_threads=1)
        self._socket: zmq.Socket[bytes] = self._context.socket(zmq.PUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.XPUB_NODROP, 1)  # without it, messages are lost silently
        try:
            self._socket.bind(endpoint)
        except TROUBLE as error:
            self.close()
            raise ScenarioError(f"cannot listen at {endpoint}: {error}") from None

    def send(self, topic: str, data: bytes) -> bool:
        """Send a message to all subscribers.

        If the queue of one subscriber is full, no subscriber gets the message, and the
        method returns False.
        """
        try:
            self._socket.send_multipart((topic.encode(), data), zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    def close(self) -> None:
        self._socket.close()
        self._context.term()


class _Parts:
    """Receiver of ZeroMQ messages, which must consist of one part.

    With ``named=True``, the sender's name precedes each message. A message of several parts becomes
    an empty message, because libzmq does not limit the number of parts.
    """

    def __init__(self, socket: zmq.Socket[bytes], named: bool) -> None:
        self._socket, self._first = socket, 0 if named else 1
        self._at, self._who, self._data = self._first, b"", b""

    def receive(self) -> tuple[bytes, bytes] | None:
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
    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def callback(self, domain: str, key: bytes) -> bool:  # noqa: ARG002
        return key == self._key


def _bound(socket: zmq.Socket[bytes]) -> None:
    socket.setsockopt(zmq.LINGER, LINGER_MS)
    socket.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES)
    socket.setsockopt(zmq.RCVHWM, MOST_QUEUED)
    socket.setsockopt(zmq.SNDHWM, MOST_QUEUED)


def feel(socket: zmq.Socket[bytes]) -> None:
    """Enable TCP keep-alive, which detects a vanished client.

    ZeroMQ's own heartbeats are unsuitable, because libzmq 4.3 can abort the process at a heartbeat
    to a vanished client.
    """
    socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
    socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, _FEEL_S)
    socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, _FEEL_S)
    socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, _SILENT_PEER_S)
    socket.setsockopt(
        zmq.TCP_MAXRT, 1000 * _SILENT_PEER_S
    )  # after this time without acknowledgement, the peer is disconnected
    socket.setsockopt(zmq.HANDSHAKE_IVL, 1000 * _SILENT_PEER_S)


def key_pair() -> tuple[str, str]:
    """Return a new CURVE key pair (public, secret) as Z85 texts."""
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


def keys_of(path: Path) -> Keys:
    """Load the server's keys from ``path``.

    If the file does not exist, the function creates the keys, and writes the client's keys to a
    second file.
    """
    if not path.exists():
        (public, secret), (theirs, their_secret) = key_pair(), key_pair()
        Keys(public, secret, public, theirs).save(path)
        Keys(theirs, their_secret, public).save(path.with_name(path.name + CLIENT))
    return Keys.load(path)


def check_address(endpoint: str, encrypted: bool) -> None:
    """Raise ``ScenarioError`` unless ``endpoint`` is ``tcp://HOST:PORT``.

    An address on another machine must be encrypted.
    """
    scheme, _, rest = endpoint.partition("://")
    host, _, port = rest.rpartition(":")
    if scheme != "tcp" or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ScenarioError(f"{endpoint!r} is not an endpoint; write tcp://HOST:PORT")
    if host not in _LOOPBACK and not encrypted:
        raise ScenarioError(
            f"{endpoint} is reachable from other machines, so the link needs keys; give "
            "--keys FILE (rtsim keys FILE writes FILE, and FILE.client for the client)"
        )


def check_served(endpoint: str, keys: Path | None, without: str) -> Path:
    """Check the address and key file of a server that accepts commands, and return the keys.

    Even a loopback address needs keys, and the keys must name a client. Without keys, raises
    :class:`ScenarioError` with the message ``without``.
    """
    check_address(endpoint, encrypted=True)
    if keys is None:
        raise ScenarioError(without)
    if not Keys.load(keys).client:
        raise ScenarioError(
            f"the key file {keys} contains no client key; make new keys: rtsim keys FILE"
        )
    return keys

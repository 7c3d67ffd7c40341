"""Links to a worker: over ZeroMQ, or over shared memory on Linux.

Only this module and :mod:`rtsim.core.net.sockets` import zmq.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib.util
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
import zmq
from zmq.utils.monitor import parse_monitor_message

from hitl.interface import Interface
from hitl.worker.messages import MessageWriter, WorkerMessageKind, longest
from rtsim.components.request_log import RequestLog
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError, ScenarioError, UnknownName
from rtsim.core.net.keys import Keys
from rtsim.core.net.sockets import LINGER_MS, MOST_BYTES, TROUBLE, check_address, feel
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Tag

LOOK_NS = 20_000_000
"""Maximum time of a single wait for a message, ns; longer waits are split."""
_NS_PER_MS = 1_000_000
_LOST = zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
_REFUSED = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


class WorkerLink:
    """A connection over ZeroMQ to one worker or server."""

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
        """True if the other end has rejected the keys of this end."""
        self.endpoint = ""

    @classmethod
    def local(cls) -> WorkerLink:
        """Return a link at a socket file that only this user can access.

        :meth:`hide` removes the file.  Raises :class:`ControllerError` if the file cannot be
        created.
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
        """Return a link to a server at ``tcp://HOST:PORT``, encrypted with ``keys``.

        Raises ``ScenarioError`` for an invalid address or invalid keys.
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
        """The socket, for callers that wait for several sockets."""
        return self._socket

    def hide(self) -> None:
        """Remove the socket file, after both ends are connected."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def send(self, data: bytes | memoryview) -> bool:
        try:
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            raise ControllerError(f"{self.endpoint}: {error}") from None
        return True

    def receive(self, until_ns: int = 0) -> bytes | None:
        """Return the next message, or None if none arrives in time.

        The method waits until ``until_ns`` of the stopwatch, but at most ``LOOK_NS``. The method
        sleeps for whole milliseconds, and busy-waits for the rest.
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
    """Return the path of pyzmq's libzmq, which the worker loads."""
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
    return Path("libzmq.so.5" if sys.platform != "darwin" else "libzmq.5.dylib")  # of the system


SHM, ZMQ = "shm", "zmq"
LINKS = (SHM, ZMQ)


class Link(Protocol):
    """A connection to a worker, which carries one message at a time."""

    endpoint: str
    """The address that the worker connects to, and the link's name in error messages."""

    def hide(self) -> None:
        """Remove files that are not needed after both ends are connected."""
        ...

    def send(self, data: bytes | memoryview) -> bool: ...

    def receive(self, until_ns: int = 0) -> bytes | None:
        """Return the next message, or None if none arrives in time.

        The wait is short, and ends at ``until_ns`` of the stopwatch.
        """
        ...

    def lost(self) -> bool:
        """Return True if the other end has disconnected."""
        ...

    def close(self) -> None: ...


def chosen_link(asked: str | None, library: Path, *, ours: bool, served: bool) -> str:
    """Return the name of the link to use, by default shared memory where possible.

    Args:
        asked: The requested link, or None for the default.
        library: Library of the runtime's end of shared memory, in the worker's build.
        ours: True if rtsim built the worker; another program may support ZeroMQ only.
        served: True if the worker runs behind ``rtsim sil serve``.

    Raises:
        ScenarioError: The link is impossible on this system.
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


# The link over shared memory (Linux).  The memory is an anonymous file of the kernel.  The file has
# no name, so only the worker, which inherits its descriptor, can open it.  The kernel frees the
# memory when both processes have ended in any way.  The size is sealed, so the other end cannot
# shrink the file.  ``rtsim_link.h`` defines the layout and the waits.  The build of a worker
# contains the library for this end.

_RUNTIME = 0
_LOOK_S = LOOK_NS / NS_PER_S
_BROKEN, _TOO_LONG = -2, -3
_SEALS = ("F_SEAL_SHRINK", "F_SEAL_GROW", "F_SEAL_SEAL")


class SharedLink:
    """A link over shared memory; a message has at most ``most_bytes``.

    ``library`` is ``link.so`` of the worker's build.  The worker must inherit the file descriptor
    :attr:`descriptor`, which :meth:`hide` closes in this process.  Raises :class:`ControllerError`
    if the memory cannot be created.
    """

    def __init__(self, library: Path, most_bytes: int) -> None:
        self.library = _loaded(library)
        self.most_bytes = most_bytes
        try:
            self.descriptor = os.memfd_create("rtsim-link", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError as error:
            raise ControllerError(
                f"cannot make shared memory: {error.strerror}; use --link zmq"
            ) from None
        self._hide = weakref.finalize(self, os.close, self.descriptor)
        try:
            os.ftruncate(self.descriptor, self.library.rtsim_link_bytes(most_bytes))
            seals = sum(getattr(fcntl, name) for name in _SEALS)
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, seals)
        except OSError as error:
            self.hide()
            raise ControllerError(
                f"cannot make shared memory: {error.strerror}; use --link zmq"
            ) from None
        self.endpoint = f"shm:{self.descriptor}"
        end = self.library.rtsim_link_open(self.descriptor, _RUNTIME, most_bytes)
        if not end:
            self.hide()
            raise ControllerError(
                "cannot map the shared memory for messages to the worker; use --link zmq"
            )
        self.end = ctypes.c_void_p(end)
        self._close = weakref.finalize(self, self.library.rtsim_link_close, self.end)
        self._buffer = ctypes.create_string_buffer(max(1, most_bytes))
        self._view = memoryview(self._buffer)
        self._send, self._receive = self.library.rtsim_link_send, self.library.rtsim_link_receive
        self._lost = False

    def hide(self) -> None:
        """Close the descriptor, after both processes have mapped the memory."""
        self._hide()

    def send(self, data: bytes | memoryview) -> bool:
        """Send ``data``; return False if an end is closed or the queue is full.

        Raises :class:`ControllerError` if the message is too long or the memory was overwritten.
        """
        if self.lost():
            return False
        result: int = self._send(self.end, bytes(data), len(data))
        if result < 0:
            raise self._error(result, len(data))
        return result == 1

    def announce(self) -> None:
        """Wake the worker before a message.

        The method has no effect after ``close``.
        """
        if self._close.alive:
            self.library.rtsim_link_announce(self.end)

    def receive(self, until_ns: int = 0) -> bytes | None:
        """Return the next message, or None if none arrives in time.

        The method waits until ``until_ns`` of the stopwatch, but at most 20 ms.
        """
        if not self._close.alive:
            return None
        until = min(until_ns, stopwatch() + LOOK_NS) if until_ns else 0
        size: int = self._receive(self.end, self._buffer, self.most_bytes, until)
        if size >= 0:
            return bytes(self._view[:size])
        if size == _BROKEN:
            raise self._error(size, 0)
        return None

    def _error(self, result: int, size: int) -> ControllerError:
        if result == _TOO_LONG:
            return ControllerError(
                f"{self.endpoint}: a message has {size} bytes, and the link takes {self.most_bytes}"
            )
        return ControllerError(
            f"the shared memory of {self.endpoint} was overwritten: a counter or a length in it "
            "is impossible; look for a write outside of an array in the C code"
        )

    def lost(self) -> bool:
        # The memory of a closed end is no longer mapped, so the library cannot be called.
        self._lost = (
            self._lost or not self._close.alive or bool(self.library.rtsim_link_closed(self.end))
        )
        return self._lost

    def close(self) -> None:
        """Close the descriptor and the mapping; a second call has no effect.

        A closed link neither sends nor receives.
        """
        self.hide()
        self._close()


class SharedSteps:
    """Fast exchange of steps with a controller: one call for a request and one for an answer.

    ``schema`` is the hash of the interface. ``inputs`` and ``outputs`` are the numbers of values.
    Only the expected answer is read. Any other message stays in the link until
    :meth:`SharedLink.receive` returns it, so that the caller can report the message.
    """

    def __init__(self, link: SharedLink, schema: int, inputs: int, outputs: int) -> None:
        library = link.library
        self._u, self._y = np.zeros(inputs), np.zeros(outputs)
        self._stamps = np.zeros(4, np.int64)
        handle = library.rtsim_steps_new(
            link.end, schema, self._u.ctypes.data, inputs, self._y.ctypes.data, outputs,
            self._stamps.ctypes.data,
        )  # fmt: skip
        if not handle:
            raise ControllerError("the system has no memory left for the messages of the link")
        self._link, self._handle = link, ctypes.c_void_p(handle)
        weakref.finalize(self, library.rtsim_steps_free, self._handle)
        self._request, self._answer = library.rtsim_steps_request, library.rtsim_steps_answer

    def request(self, sequence: int, tag: Tag, inputs: Vector) -> bool:
        """Send a request with the inputs (m,); return False if impossible."""
        if len(inputs) != len(self._u):
            return False
        self._u[:] = inputs
        sent: bool = self._request(self._handle, sequence, tag.ns, tag.step) == 1
        return sent

    def answer(self, patience: float) -> int:
        """Wait for the answer, at most ``patience`` s and at most 20 ms.

        Returns the execution time of the step in ns, or -1 without an answer.
        """
        patience_ns = LOOK_NS if patience > _LOOK_S else int(patience * NS_PER_S)
        took: int = self._answer(self._handle, patience_ns)
        return took

    @property
    def values(self) -> Vector:
        """Outputs of the latest answer, shape (n,)."""
        return self._y.copy()

    def stamps(self) -> tuple[int, int, int, int]:
        """Return the times (ns) of the latest step: sent, begun, ended and received."""
        sent, begun, ended, received = self._stamps.tolist()
        return sent, begun, ended, received


@cache
def _loaded(library: Path) -> ctypes.CDLL:
    out = ctypes.CDLL(str(library))
    handle, size = ctypes.c_void_p, ctypes.c_size_t
    out.rtsim_link_bytes.argtypes, out.rtsim_link_bytes.restype = [size], size
    out.rtsim_link_open.argtypes = [ctypes.c_int, ctypes.c_int, size]
    out.rtsim_link_open.restype = handle
    out.rtsim_link_send.argtypes = [handle, ctypes.c_char_p, size]
    out.rtsim_link_receive.argtypes = [handle, handle, size, ctypes.c_int64]
    out.rtsim_link_announce.argtypes, out.rtsim_link_announce.restype = [handle], None
    out.rtsim_link_closed.argtypes = [handle]
    out.rtsim_link_close.argtypes, out.rtsim_link_close.restype = [handle], None
    number = ctypes.c_int64
    out.rtsim_steps_new.argtypes = [handle, ctypes.c_uint64, handle, size, handle, size, handle]
    out.rtsim_steps_new.restype = handle
    out.rtsim_steps_request.argtypes = [handle, ctypes.c_uint64, number, number]
    out.rtsim_steps_answer.argtypes, out.rtsim_steps_answer.restype = [handle, number], number
    out.rtsim_steps_free.argtypes, out.rtsim_steps_free.restype = [handle], None
    return out


# After the loop has slept, the code of an exchange is no longer in the caches, and the worker
# sleeps as well.  Without a warm-up, the first exchange takes several times as long as the next.

_WORKER = 1
_TAG, _SEQUENCE, _AT_ONCE = Tag(0), 1, 0.0


class ExchangeWarmUp:
    """Warm-up that wakes the worker, and exchanges a step over a second link.

    This process has both ends of the second link. The sizes of the messages are those of
    ``interface``. The worker receives no message, so that its controller does not change.
    ``library`` is ``link.so`` of the worker's build. Raises ``ControllerError`` if the second link
    cannot be created.
    """

    def __init__(self, link: SharedLink, library: Path, interface: Interface) -> None:
        self._announce = link.announce
        m, n, schema = interface.inputs.size, interface.outputs.size, interface.schema
        most = longest(m, n, 0)
        self._link = SharedLink(library, most)
        own = self._link.library
        self._send, self._receive = own.rtsim_link_send, own.rtsim_link_receive
        end = own.rtsim_link_open(self._link.descriptor, _WORKER, 0)
        if not end:
            self._link.close()
            raise ControllerError(
                "cannot map the shared memory for the warm-up before the run; use --link zmq"
            )
        self._end = ctypes.c_void_p(end)
        self._close = weakref.finalize(self, own.rtsim_link_close, self._end)
        self._link.hide()
        self._buffer, self._most = ctypes.create_string_buffer(most), most
        self._steps = SharedSteps(self._link, schema, m, n)
        speaker = MessageWriter(n, schema)
        self._answer = bytes(
            speaker.message(WorkerMessageKind.ANSWER, _SEQUENCE, _TAG, np.zeros(n))
        )
        self._inputs, self._log = np.zeros(m), RequestLog(m)

    def __call__(self) -> bool:
        """Wake the worker and exchange a step over the second link; return True on success.

        After ``close``, the call has no effect.
        """
        if not self._close.alive:
            return False
        self._announce()
        steps, log = self._steps, self._log
        self._send(self._end, self._answer, len(self._answer))
        sent = steps.request(_SEQUENCE, _TAG, self._inputs)
        log.add(_TAG, self._inputs)
        took_ns = steps.answer(_AT_ONCE)
        log.heard(steps.values)
        log.steps = 1  # The next warm-up overwrites this row, so the log does not grow.
        self._receive(self._end, self._buffer, self._most, 0)
        return sent and took_ns >= 0

    def close(self) -> None:
        self._close()
        self._link.close()

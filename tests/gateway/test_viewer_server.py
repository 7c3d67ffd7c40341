"""The server of Foxglove's viewers: files that run out, its failure, messages in fragments."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, cast

import foxglove_parts
import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from rtsim.gateway.addresses import OriginCheck
from rtsim.gateway.foxglove import PROTOCOL, Described, ViewerServer

MOST_ASKED = 1 << 16


class Full:
    """A listening socket that has no file descriptor for its first ``many`` connections."""

    def __init__(self, many: int, error: int = errno.EMFILE) -> None:
        self.within = socket.create_server(("127.0.0.1", 0))
        self.many, self.error, self.calls = many, error, 0

    def accept(self) -> tuple[socket.socket, Any]:
        self.calls += 1
        if self.calls <= self.many:
            raise OSError(self.error, os.strerror(self.error))
        return self.within.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.within, name)


def test_a_server_out_of_descriptors_pauses_and_warns_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    full = Full(150)  # asyncio accepts up to 100 connections at a time
    with served(cast(socket.socket, full)):
        assert 150 < full.calls < 500, "it tries again each second"
    said = capsys.readouterr().err
    assert said.count("no further viewer can connect: Too many open files; ") == 1
    assert said.count("\n") == 1
    assert "ulimit -n" in said


def test_a_connection_that_was_given_up_pauses_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    full = Full(2, errno.ECONNABORTED)
    with served(cast(socket.socket, full)):
        assert full.calls > 2
    assert capsys.readouterr().err == ""


class Broken(OriginCheck):
    """Stands for any fault of the server."""

    def objection(self, origins: Iterable[str]) -> str:  # noqa: ARG002
        raise KeyError("boom")


def test_a_failure_is_reported_and_ends_the_connections(capsys: pytest.CaptureFixture[str]) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    server = ViewerServer(listener, "test", Broken())
    address = listener.getsockname()
    channel = server.add(Described("t", "S", b""))
    server.start()
    with (
        socket.create_connection(address, 10) as first,
        socket.create_connection(address, 10) as one,
    ):
        first.sendall(REQUEST.encode())
        assert first.recv(1 << 10).startswith(b"HTTP/1.1 500 ")
        with suppress(ConnectionResetError):
            assert one.recv(10) == b"", "no viewer waits for a server that is gone"
        server.join(10)
    assert not server.is_alive()
    assert server.failure == "no viewer is served any more: KeyError: 'boom'"
    assert capsys.readouterr().err == f"rtsim: --foxglove: {server.failure}\n"
    assert not server.wanted(channel)
    server.log(channel, b"", 0)
    server.broadcast_time(0)
    server.close()


def test_a_server_that_was_closed_has_not_failed(capsys: pytest.CaptureFixture[str]) -> None:
    with served():
        pass
    assert capsys.readouterr().err == ""


@contextmanager
def served(
    listener: socket.socket | None = None,
) -> Iterator[tuple[ViewerServer, ClientConnection]]:
    """Give a server of one channel and a viewer that has read the server's description."""
    listener = listener or socket.create_server(("127.0.0.1", 0))
    server = ViewerServer(listener, "test")
    server.add(Described("t", "S", b""))
    server.start()
    address = "ws://127.0.0.1:{1}".format(*listener.getsockname())
    try:
        viewer = connect(address, subprotocols=[Subprotocol(PROTOCOL)])
        with viewer:
            viewer.recv(10), viewer.recv(10)
            yield server, viewer
    finally:
        server.close()
    assert server.failure == ""


def told(viewer: ClientConnection) -> str:
    return str(json.loads(viewer.recv(10))["message"])


def test_a_viewer_that_hangs_holds_up_neither_the_end_nor_other_viewers() -> None:
    with served() as (server, viewer):
        hanging = foxglove_parts.frozen(viewer.remote_address[1], 1)
        while not server.wanted(1):
            pass
        for _ in range(100):
            server.log(1, bytes(1 << 16), 0)
        server.broadcast_time(5)
        while viewer.recv(10) != b"\x02\x05" + bytes(7):
            pass
        assert server.counts.lost > 50, "the limit of what waits, and the buffers of the system"
    assert server.counts.sent + server.counts.lost == 100
    hanging.close()


def test_a_message_in_fragments_is_obeyed_as_a_whole() -> None:
    text = json.dumps({"op": "subscribe", "subscriptions": [{"id": 7, "channelId": 1}]})
    with served() as (server, viewer):
        viewer.send([text[:5], "", text[5:30], text[30:]])
        viewer.send(["{", '"op": "none"}'])
        assert told(viewer) == "this message is not understood: rtsim has no none"
        assert server.wanted(1)


def test_a_ping_between_fragments_belongs_to_no_message() -> None:
    with served() as (_, viewer):

        def parts() -> Iterator[str]:
            yield '{"op": '
            assert viewer.ping(b"between").wait(10)
            yield '"none"}'

        viewer.send(parts())
        assert told(viewer) == "this message is not understood: rtsim has no none"


def test_a_binary_message_is_answered_and_is_no_text() -> None:
    with served() as (_, viewer):
        viewer.send([b'{"op": ', b'"none"}'])
        assert told(viewer) == "this message is not understood: rtsim reads no binary messages"
        viewer.send('{"op": "none"}')
        assert told(viewer) == "this message is not understood: rtsim has no none"


REQUEST = (
    "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    f"Sec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
)
CLOSED_1009 = b"\x03\xf1"
"""The code with which a close frame begins."""


def test_a_viewer_that_still_sends_reads_why_its_connection_ends() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    server = ViewerServer(listener, "test")
    server.start()
    with closing(server), socket.create_connection(listener.getsockname(), 10) as viewer:
        viewer.sendall(REQUEST.encode())
        said = b""
        while b'"advertise"' not in said:
            said += viewer.recv(1 << 16)
        viewer.sendall(bytes((0x82, 0xFF)) + (1 << 20).to_bytes(8, "big") + bytes(1 << 17))
        said = b""
        while data := viewer.recv(1 << 16):
            said += data
        assert CLOSED_1009 in said


def test_fragments_are_limited_as_a_whole() -> None:
    with served() as (_, viewer):
        viewer.send(["x" * (MOST_ASKED // 2)] * 2)
        assert "not understood" in told(viewer), "the limit itself"
        viewer.send(["x" * (MOST_ASKED // 2), "x" * (MOST_ASKED // 2), "x"])
        with pytest.raises(ConnectionClosedError, match=r"1009 .*message too big"):
            viewer.recv(10)

"""A page of somebody else, open in a browser of this machine, does not watch the run."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from click.testing import CliRunner
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from rtsim.cli.main import main
from rtsim.core.errors import ScenarioError
from rtsim.gateway.addresses import OriginCheck, read_origins
from rtsim.gateway.foxglove import MOST_VIEWERS, PROTOCOL, Described, ViewerServer


def asked(*lines: str) -> bytes:
    head = ["GET / HTTP/1.1", "Host: 127.0.0.1:8765", "Upgrade: websocket", *lines]
    return "\r\n".join([*head, "", ""]).encode()


@pytest.mark.parametrize(
    ("origins", "let_in"),
    [
        ([], True),
        (["https://app.foxglove.dev"], True),
        (["https://APP.foxglove.dev  "], True),
        (["file://"], True),
        (["http://localhost:8080"], True),
        (["http://127.0.0.1:3000"], True),
        (["http://[::1]:3000"], True),
        (["https://viewer.example.org"], True),
        (["https://evil.example"], False),
        (["null"], False),
        (["https://app.foxglove.dev.evil.example"], False),
        (["http://localhost.evil.example"], False),
        (["http://app.foxglove.dev"], False),
        (["https://localhost@evil.example"], False),
        (["https://app.foxglove.dev", "https://evil.example"], False),
        (["http://[::1"], False),
        ([""], False),
    ],
)
def test_who_is_let_in(origins: list[str], let_in: bool) -> None:
    why = OriginCheck(["https://viewer.example.org"]).objection(origins)
    assert (not why) is let_in
    if not let_in:
        assert "--foxglove-origin" in why


@contextmanager
def served() -> Iterator[tuple[int, ViewerServer]]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = ViewerServer(listener, "test")
    server.add(Described("t", "S", b"descriptor", {"a": "b"}))
    port = listener.getsockname()[1]
    server.start()
    try:
        yield port, server
    finally:
        server.close()


def answer(port: int, *parts: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 10) as viewer:
        for part in parts:
            viewer.sendall(part)
        out = b""
        while data := viewer.recv(4096):
            out += data
        return out


def viewer(port: int, **how: Any) -> ClientConnection:
    return connect(f"ws://127.0.0.1:{port}", subprotocols=[Subprotocol(PROTOCOL)], **how)


def test_a_foreign_page_reaches_nothing() -> None:
    with served() as (port, _):
        evil = asked("Origin: https://evil.example")
        said = answer(port, evil[:30], evil[30:])
        assert said.startswith(b"HTTP/1.1 403 Forbidden\r\n")
        assert b"a page of https://evil.example may not watch" in said
        both = asked("Origin: https://app.foxglove.dev", "origin: https://evil.example")
        assert answer(port, both).startswith(b"HTTP/1.1 403 Forbidden\r\n")
        for origin in ("http://evil.example", "null"):
            with pytest.raises(InvalidStatus, match="403"):
                viewer(port, origin=Origin(origin))
        with viewer(port, origin=Origin("https://app.foxglove.dev")) as one:
            assert json.loads(one.recv(10))["op"] == "serverInfo"
        assert answer(port, asked()).startswith(b"HTTP/1.1 426 "), "it does not speak the protocol"


def test_viewers_get_what_they_subscribe_to() -> None:
    with served() as (port, server), viewer(port) as one:
        assert json.loads(one.recv(10))["capabilities"] == ["time"]
        (channel,) = json.loads(one.recv(10))["channels"]
        assert channel == {
            "id": 1, "topic": "t", "encoding": "protobuf", "schemaName": "S",
            "schemaEncoding": "protobuf", "schema": "ZGVzY3JpcHRvcg==", "metadata": {"a": "b"},
        }  # fmt: skip
        assert not server.wanted(1)
        one.send(json.dumps({"op": "subscribe", "subscriptions": [{"id": 7, "channelId": 1}]}))
        while not server.wanted(1):
            pass
        server.log(1, b"hello", 123)
        server.broadcast_time(5)
        server.clear_session()
        assert one.recv(10) == struct.pack("<BIQ", 1, 7, 123) + b"hello"
        assert one.recv(10) == struct.pack("<BQ", 2, 5)
        assert json.loads(one.recv(10))["op"] == "serverInfo"
        unknown = {"op": "subscribe", "subscriptions": [{"id": 1, "channelId": 9}]}
        for wrong in ("{", "[]", '{"op": "publish"}', json.dumps(unknown)):
            one.send(wrong)
            assert json.loads(one.recv(10))["level"] == 2
        one.send(json.dumps({"op": "unsubscribe", "subscriptionIds": [7]}))
        while server.wanted(1):
            pass
        assert server.counts.sent == 1


def test_programs_that_only_connect_keep_no_viewer_out() -> None:
    with served() as (port, _), ExitStack() as stack:
        for _ in range(2 * MOST_VIEWERS):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
        for _ in range(MOST_VIEWERS):
            assert stack.enter_context(viewer(port)).recv(10)
        with pytest.raises(InvalidStatus, match="503"):
            viewer(port)


def test_origins_are_written_as_browsers_do() -> None:
    assert read_origins(["https://Viewer.example.org/"]) == ("https://viewer.example.org",)
    for text in ("viewer.example.org", "https://", "https://a/b", "*"):
        with pytest.raises(ScenarioError, match="is not an origin"):
            read_origins([text])


def test_the_option_goes_with_foxglove() -> None:
    done = CliRunner().invoke(main, ["run", "ball", "--foxglove-origin", "https://a"])
    assert done.exit_code == 2
    assert "works only with --foxglove" in done.output

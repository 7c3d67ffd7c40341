"""A page of somebody else, open in a browser of this machine, does not watch the run."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from rtsim.cli.main import main
from rtsim.core.errors import ScenarioError
from rtsim.gateway.origins import LONGEST_HEAD, OriginCheck, read_origins
from rtsim.gateway.relay import TelemetryRelay

UPGRADED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"


def asked(*lines: str) -> bytes:
    head = ["GET / HTTP/1.1", "Host: 127.0.0.1:8765", "Upgrade: websocket", *lines]
    return "\r\n".join([*head, "", ""]).encode()


@pytest.mark.parametrize(
    ("lines", "let_in"),
    [
        ([], True),
        (["Origin: https://app.foxglove.dev"], True),
        (["origin:   https://APP.foxglove.dev  "], True),
        (["Origin: file://"], True),
        (["Origin: http://localhost:8080"], True),
        (["Origin: http://127.0.0.1:3000"], True),
        (["Origin: http://[::1]:3000"], True),
        (["Origin: https://viewer.example.org"], True),
        (["Origin: https://evil.example"], False),
        (["Origin: null"], False),
        (["Origin: https://app.foxglove.dev.evil.example"], False),
        (["Origin: http://localhost.evil.example"], False),
        (["Origin: http://app.foxglove.dev"], False),
        (["Origin: https://localhost@evil.example"], False),
        (["Origin: https://app.foxglove.dev", "Origin: https://evil.example"], False),
        (["Origin: http://[::1"], False),
        (["Origin:"], False),
    ],
)
def test_who_is_let_in(lines: list[str], let_in: bool) -> None:
    origin_check = OriginCheck(["https://viewer.example.org"])
    assert origin_check.is_complete(asked(*lines))
    why = origin_check.objection(asked(*lines))
    assert (not why) is let_in
    if lines and not let_in:
        assert "--foxglove-origin" in why


def test_a_head_without_an_end_is_refused() -> None:
    origin_check = OriginCheck()
    assert not origin_check.is_complete(b"GET / HTTP/1.1\r\nOrigin: https://evil.exam")
    endless = b"GET / HTTP/1.1\r\nX: " + b"x" * LONGEST_HEAD
    assert origin_check.is_complete(endless)
    assert origin_check.objection(endless)


@contextmanager
def relayed() -> Iterator[tuple[int, list[bytes]]]:
    """A relay before a server that upgrades whoever asks; what the server heard."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        listener = socket.create_server(("127.0.0.1", 0))
        relay = TelemetryRelay(listener, server.getsockname()[1])
        port = listener.getsockname()[1]
        relay.start()

        def serve() -> None:
            while True:
                try:
                    end, _ = server.accept()
                except OSError:
                    return
                with end:
                    data = end.recv(4096)
                    if data:
                        heard.append(data)
                        end.sendall(UPGRADED)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield port, heard
        finally:
            relay.close()
            server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def answer(port: int, *parts: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 10) as viewer:
        for part in parts:
            viewer.sendall(part)
        out = b""
        while data := viewer.recv(4096):
            out += data
        return out


def test_a_foreign_page_reaches_nothing() -> None:
    with relayed() as (port, heard):
        evil = asked("Origin: https://evil.example")
        said = answer(port, evil[:30], evil[30:])
        assert said.startswith(b"HTTP/1.1 403 Forbidden\r\n")
        assert b"a page of https://evil.example may not watch" in said
        assert heard == []
        good = asked("Origin: http://localhost:1")
        assert answer(port, good[:30], good[30:]) == UPGRADED
        assert heard == [good]


def test_origins_are_written_as_browsers_do() -> None:
    assert read_origins(["https://Viewer.example.org/"]) == ("https://viewer.example.org",)
    for text in ("viewer.example.org", "https://", "https://a/b", "*"):
        with pytest.raises(ScenarioError, match="is not an origin"):
            read_origins([text])


def test_the_option_goes_with_foxglove() -> None:
    done = CliRunner().invoke(main, ["run", "ball", "--foxglove-origin", "https://a"])
    assert done.exit_code == 2
    assert "works only with --foxglove" in done.output

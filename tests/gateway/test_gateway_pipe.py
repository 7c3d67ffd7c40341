"""The pipe between the loop and its gateway: messages whole, bounded, and nobody waits."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from rtsim.core.net.messagepack import pack
from rtsim.gateway.pipe import MOST_BYTES, Pipe, PipeError


def _pair() -> tuple[Pipe, Any]:
    a, b = socket.socketpair()
    b.setblocking(False)
    return Pipe(a, most_waiting=3 * MOST_BYTES), b


def test_a_pipe_takes_messages_in_any_pieces() -> None:
    pipe, far = _pair()
    data = b"".join(len(p := pack({"k": k})).to_bytes(4, "little") + p for k in range(20))
    found = []
    for byte in data:
        far.send(bytes([byte]))
        found += pipe.receive()
    assert found == [{"k": k} for k in range(20)]
    far.close()
    assert pipe.receive() == []
    assert pipe.gone
    pipe.close()


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\x01\x00\x00\x00\xc1"])
def test_a_pipe_refuses_what_is_no_message(data: bytes) -> None:
    pipe, far = _pair()
    far.send(data)
    with pytest.raises(PipeError):
        pipe.receive()
    pipe.close()
    far.close()


def test_a_pipe_never_waits_for_an_end_that_takes_nothing() -> None:
    pipe, far = _pair()
    sent = 0
    while pipe.send({"x": bytes(100_000)}):
        sent += 1
        assert sent < 100
    assert pipe.busy
    pipe.close()
    far.close()


def test_no_more_than_a_tag_takes_is_taken_at_once() -> None:
    """The rest waits its turn, whether more comes or not."""
    ours, theirs = socket.socketpair()
    near, far = Pipe(ours), Pipe(theirs)
    for k in range(10):
        assert far.send({"k": k, "load": "x" * 1000})
    seen: list[int] = []
    while not seen or near.more:
        assert near.wait(0.0)
        took = [message["k"] for message in near.receive(2500)]
        assert len(took) <= 3
        seen += took
    assert seen == list(range(10))
    assert not near.wait(0.0)
    near.close()
    far.close()

"""What comes through a socket is bounded as a whole, and a peer that floods ends nobody.

Where viewers connect: this machine alone, unless a word says otherwise.
"""

from __future__ import annotations

import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq
from click.testing import CliRunner

from rtsim.cli.main import main
from rtsim.core.errors import ScenarioError
from rtsim.core.net.sockets import MOST_BYTES, MOST_QUEUED, Caller, ListeningSocket
from rtsim.gateway.addresses import check_foxglove, listen
from rtsim.gateway.loop import Gateway
from rtsim.gateway.process import MOST_MEMORY

PARTS = [
    [b"a", b"b"], [b"", b"a"], [b"a", b""], [b"", b"", b"a"], [b"a"] * 5000,
    [bytes(MOST_BYTES)] * 3,
]  # fmt: skip


@contextmanager
def raw(kind: int) -> Iterator[zmq.Socket[bytes]]:
    """A socket of ZeroMQ itself, which keeps to nothing."""
    with zmq.Context() as context, context.socket(kind) as end:
        end.setsockopt(zmq.LINGER, 0)
        end.setsockopt(zmq.SNDHWM, 0)
        yield end


def heard(listener: ListeningSocket) -> tuple[bytes, bytes]:
    for _ in range(1000):
        listener.wait(20)
        said = listener.receive()
        if said is not None:
            return said
    raise AssertionError("nothing came")


def said_to(caller: Caller) -> bytes:
    for _ in range(1000):
        said = caller.receive(20)
        if said is not None:
            return said
    raise AssertionError("nothing came")


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: f"{len(parts)}x{len(parts[0])}")
def test_of_a_message_of_several_parts_a_listener_keeps_nothing(parts: list[bytes]) -> None:
    listener = ListeningSocket.local()
    with raw(zmq.DEALER) as peer:
        peer.connect(listener.endpoint)
        peer.send_multipart(parts)
        peer.send(b"whole")
        (one, nothing), (other, whole) = heard(listener), heard(listener)
        assert (nothing, whole) == (b"", b"whole")
        assert one == other
        assert listener.receive() is None
    listener.close()


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: f"{len(parts)}x{len(parts[0])}")
def test_of_a_message_of_several_parts_a_caller_keeps_nothing(
    parts: list[bytes], tmp_path: Path
) -> None:
    endpoint = f"ipc://{tmp_path}/s"
    with raw(zmq.ROUTER) as peer:
        peer.bind(endpoint)
        caller = Caller(endpoint)
        assert caller.send(b"here")
        who, _ = peer.recv_multipart()
        peer.send_multipart([who, *parts])
        peer.send_multipart([who, b"whole"])
        assert [said_to(caller), said_to(caller)] == [b"", b"whole"]
        caller.close()


FLOODED = """
import sys, time
from rtsim.core.net.sockets import Caller, ListeningSocket
listener, caller = ListeningSocket(sys.argv[1]), Caller(sys.argv[2])
caller.send(b"here")
print("up", flush=True)
sys.stdin.readline()
many = 0
while listener.receive() is not None: many += 1
more = 0
while caller.receive(0) is not None: more += 1
print(many, more, flush=True)
"""


@pytest.mark.live
def test_a_peer_that_floods_and_goes_ends_neither_a_listener_nor_a_caller() -> None:
    with raw(zmq.DEALER) as to_listener, raw(zmq.ROUTER) as to_caller:
        port = to_caller.bind_to_random_port("tcp://127.0.0.1")
        with raw(zmq.ROUTER) as held:  # a free port
            free = held.bind_to_random_port("tcp://127.0.0.1")
        here, there = f"tcp://127.0.0.1:{free}", f"tcp://127.0.0.1:{port}"
        process = subprocess.Popen(
            [sys.executable, "-c", FLOODED, here, there],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        to_listener.connect(here)
        who, _ = to_caller.recv_multipart()
        for _ in range(6000):
            to_listener.send(bytes(2000))
            to_caller.send_multipart([who, bytes(2000)])
        select.select([], [], [], 0.5)  # it is under way
    select.select([], [], [], 2.0)  # some heartbeats, where there were any
    said, wrong = process.communicate("\n", timeout=60)
    assert (process.returncode, wrong) == (0, "")
    many, more = map(int, said.split())
    assert MOST_QUEUED <= many < 6000
    assert MOST_QUEUED <= more < 6000


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells limits on Linux")
def test_the_memory_of_a_gateway_has_a_limit() -> None:
    gateway = Gateway({"scenario": "none"})
    with gateway:
        limits = Path(f"/proc/{gateway.pid}/limits")
        for _ in range(600):
            if f" {MOST_MEMORY} " in limits.read_text():
                break
            select.select([], [], [], 0.05)
        (line,) = [x for x in limits.read_text().splitlines() if x.startswith("Max data size")]
        assert line.split()[3] == str(MOST_MEMORY)


OPEN = [
    "0.0.0.0:8765",
    "[::]:8765",
    "192.0.2.7:8765",
    "[2001:db8::1]:8765",
    "[::ffff:192.0.2.7]:8765",
]
HERE = ["8765", ":8765", "127.0.0.1:8765", "localhost:8765", "127.1.2.3:8765", "[::1]:8765"]


@pytest.mark.parametrize("at", OPEN)
def test_an_address_beyond_this_machine_is_refused_with_the_ssh_command(at: str) -> None:
    pytest.importorskip("foxglove")
    told = CliRunner().invoke(main, ["run", "unstable", "--no-record", "--foxglove", at])
    assert told.exit_code == 2
    assert f"--foxglove {at} would serve other machines without encryption" in told.stderr
    assert "ssh -N -L 8765:127.0.0.1:8765" in told.stderr
    assert "--foxglove-unencrypted" in told.stderr


@pytest.mark.parametrize("at", HERE)
def test_an_address_of_this_machine_needs_no_option(at: str) -> None:
    pytest.importorskip("foxglove")
    check_foxglove(at)


def test_the_option_for_unencrypted_foxglove_serves_other_machines() -> None:
    pytest.importorskip("foxglove")
    check_foxglove("0.0.0.0:8765", unencrypted=True)
    with listen("0.0.0.0:" + _free(), unencrypted=True) as end:
        assert end.getsockname()[0] == "0.0.0.0"


def test_the_option_for_unencrypted_foxglove_alone_is_refused() -> None:
    told = CliRunner().invoke(main, ["run", "unstable", "--no-record", "--foxglove-unencrypted"])
    assert told.exit_code == 2
    assert "works only with --foxglove HOST:PORT" in told.stderr


def test_the_bound_address_is_checked_not_an_earlier_resolution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name may stand for another address when it is served."""

    def resolved(*_: Any) -> list[Any]:
        return [(0, 0, 0, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    at = "0.0.0.0:" + _free()
    with pytest.raises(ScenarioError, match="would serve other machines"):
        listen(at)


def _free() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])

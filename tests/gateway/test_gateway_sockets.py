"""What of a run can be reached: nothing beyond this machine, unless asked, and then with keys."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from socket_parts import LOOPBACK, reached, tree

from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.net.sockets import Caller, keys_of
from rtsim.gateway.client import ControlError, connect
from rtsim.gateway.loop import Gateway

RTSIM = [sys.executable, "-m", "rtsim"]


class Going:
    """A run in a process of its own."""

    def __init__(self, *options: str) -> None:
        command = [
            *RTSIM, "run", "unstable", "--plain", "--no-record", "--pace", "1.0",
            "--until", "100000", "--overrun", "slip:1000000", *options,
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def __enter__(self) -> Going:
        for _ in range(1200):
            try:
                with connect("unstable") as run:
                    assert run.status.ns > 0
                return self
            except (ScenarioError, ControlError):
                assert self.process.poll() is None
                select.select([], [], [], 0.05)
        raise AssertionError("the run cannot be reached")

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc lists sockets on Linux")


def test_a_listener_would_be_seen() -> None:
    with socket.socket() as open_to_all:
        open_to_all.bind(("0.0.0.0", 0))
        open_to_all.listen()
        port = open_to_all.getsockname()[1]
        assert ("tcp", "00000000", port) in reached(os.getpid())


@pytest.mark.live
def test_nothing_listens_with_control_alone() -> None:
    with Going("--control") as going:
        assert len(tree(going.process.pid)) >= 2, "the gateway is a process of its own"
        assert reached(going.process.pid) == []


@pytest.fixture
def port() -> int:
    """Free a moment ago."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


@pytest.mark.live
def test_plotting_tools_are_served_on_loopback_alone(port: int) -> None:
    pytest.importorskip("foxglove")
    with Going("--control", "--plotjuggler", "--foxglove", str(port)) as going:
        found = reached(going.process.pid)
        assert {("tcp", 9872), ("tcp", port)} <= {(protocol, at) for protocol, _, at in found}
        assert all(address in LOOPBACK for _, address, _ in found)


@pytest.mark.live
def test_over_tcp_clients_need_the_keys(tmp_path: Path, port: int) -> None:
    keys = tmp_path / "run.keys"
    keys_of(keys)
    at = f"tcp://127.0.0.1:{port}"
    with Going("--control", "--control-at", at, "--control-keys", str(keys)) as going:
        assert [(p, n) for p, _, n in reached(going.process.pid)] == [("tcp", port)]
        with connect(at, f"{keys}.client") as run:
            assert run.scenario == "unstable"
        other = tmp_path / "other"
        keys_of(other)
        with pytest.raises(ControlError, match="no answer"):
            connect(at, f"{other}.client")
        with pytest.raises(ControlError, match="rtsim keys"):
            connect(at)
        bare = Caller(at)
        bare.send(b"\x80")
        assert bare.receive(500) is None
        bare.close()


@pytest.mark.sample(1)
@pytest.mark.parametrize("at", ["tcp://127.0.0.1:5999", "tcp://192.0.2.1:5999", "tcp://*:5999"])
def test_an_address_without_keys_is_refused_with_the_command_that_makes_them(at: str) -> None:
    command = [*RTSIM, "run", "unstable", "--no-record", "--control-at", at]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "rtsim keys run.keys" in done.stderr
    assert "--control-keys run.keys" in done.stderr
    with pytest.raises(RtsimError, match="rtsim keys"):
        Gateway({}, at)


@pytest.mark.parametrize("at", ["ipc:///tmp/x", "127.0.0.1:5999", "tcp://127.0.0.1"])
def test_a_malformed_address_is_refused(at: str, tmp_path: Path) -> None:
    with pytest.raises(RtsimError, match="tcp://HOST:PORT"):
        Gateway({}, at, tmp_path / "keys")


def test_keys_that_are_not_there_are_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(RtsimError, match="rtsim keys FILE"):
        Gateway({}, "tcp://127.0.0.1:5999", tmp_path / "keys")


def taken() -> socket.socket:
    """A socket that listens at a free port."""
    end = socket.socket()
    end.bind(("127.0.0.1", 0))
    end.listen()
    return end


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("options", "said"),
    [(["--control-at", "tcp://127.0.0.1:{port}", "--control-keys", "run.keys"],
      ["--control-at", "Address already in use", "give another tcp://HOST:PORT"]),
     (["--foxglove", "127.0.0.1:{port}"], ["--foxglove", "give another HOST:PORT"]),
     (["--web", "{port}"], ["--web", "Address already in use"]),
     (["--control"], ["Not a directory", "set RTSIM_RUNTIME_DIR"])],
)  # fmt: skip
def test_a_service_that_cannot_start_ends_the_run_before_it_begins(
    options: list[str], said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    keys_of(Path("run.keys"))
    (tmp_path / "a file").touch()
    where = "a file" if options == ["--control"] else "a folder"
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path / where))
    with taken() as end:
        port = end.getsockname()[1]
        typed = [
            "run",
            "unstable",
            "--plain",
            "--until",
            "0.1",
            *(o.format(port=port) for o in options),
        ]
        done = subprocess.run([*RTSIM, *typed], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stdout == ""
    *_, line = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert "Traceback" not in done.stderr
    assert all(text in line for text in said), line
    assert not list(tmp_path.glob("runs/*.mcap"))


def test_a_run_that_is_not_to_be_listed_needs_no_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path / "a file"))
    with Gateway({}, listed=False):
        pass
    with pytest.raises(ScenarioError, match="set RTSIM_RUNTIME_DIR"), Gateway({}):
        pass

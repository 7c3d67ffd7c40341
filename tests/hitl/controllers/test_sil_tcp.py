"""A worker served over TCP: fresh for each run, and every way in which that can go wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from sil_parts import FAULTS, alive, built, flown, loop, nothing_left

from hitl.building.build import Build
from hitl.controllers.sil import SilController
from hitl.worker.remote import Server
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.net.keys import CLIENT, Keys
from rtsim.core.net.sockets import keys_of
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return built(tmp_path_factory)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


def free_endpoint() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


class Served:
    """A server in a thread of its own, and what it said."""

    def __init__(self, build: Build, keys: Keys | None = None) -> None:
        self.endpoint = free_endpoint()
        self.said: list[str] = []
        self.ended = threading.Event()
        self.server = Server(build, self.endpoint, keys, self.said.append)
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        while not self.ended.is_set():
            self.server.look()
        self.server.close()

    def wait_for(self, words: str) -> None:
        """Until it has said so."""
        until = stopwatch() + 20 * NS_PER_S
        while not any(words in line for line in self.said):
            assert stopwatch() < until, f"{words!r} is not in {self.said}"
            self.ended.wait(0.01)

    def close(self) -> None:
        self.ended.set()
        self.thread.join()


@contextmanager
def served(build: Build, keys: Keys | None = None) -> Iterator[Served]:
    one = Served(build, keys)
    try:
        yield one
    finally:
        one.close()


def client(build: Build, endpoint: str, cases: Path, **more: object) -> SilController:
    return SilController(build.interface, cases=cases, endpoint=endpoint, **more)  # type: ignore[arg-type]


def stepped(controller: SilController, number: int, fault: float = 0.0) -> list[float]:
    controller.send(Tag(number), np.array([fault, 0.0]))
    answer = controller.receive(Tag(number), 10.0)
    assert answer is not None
    return list(map(float, answer))


def test_the_trace_is_that_of_a_worker_here(plain: Build, tmp_path: Path) -> None:
    here, _ = flown(loop(SilController(plain, cases=tmp_path)))
    with served(plain) as there:
        for _ in range(2):  # a fresh process each time
            scenario = loop(client(plain, there.endpoint, tmp_path))
            recording, error = flown(scenario)
            assert error is None
            assert recording.messages["c"]["y"].tolist() == here.messages["c"]["y"].tolist()
    assert [line.partition(":")[0] for line in there.said] == ["run 1", "run 1", "run 2", "run 2"]
    about = recording.header["scenario"]["parts"]["c"]
    assert about["endpoint"] == there.endpoint
    assert "only their difference means anything" in about["stamps"]


@pytest.mark.parametrize("fault", ["null", "exit", "divide"])
def test_what_ended_it_there_is_told_here(fault: str, plain: Build, tmp_path: Path) -> None:
    with served(plain) as there:
        controller = client(plain, there.endpoint, tmp_path)
        _, error = flown(loop(controller, fault))
        wanted = {"null": "SIGSEGV", "exit": "exit status 0", "divide": "SIGFPE"}
        assert str(error).startswith("faulty failed at 0.040000000 s: tcp://127.0.0.1:")
        assert wanted[fault] in str(error)
        assert "inputs: fault=" in str(error)
        assert "again: rtsim sil case " in str(error)
        _, error = flown(loop(controller, failure="hold"))
        assert error is None, "the next run has a fresh process"


@pytest.mark.parametrize("killed", [True, False])
def test_whether_it_was_killed_there_does_not_depend_on_a_text(
    killed: bool, plain: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C++ code can throw any text, and the first line of the error repeats it."""
    with served(plain) as there:
        controller = client(plain, there.endpoint, tmp_path).fresh()
        if killed:
            os.kill(int(there.said[0].rpartition(" ")[2]), signal.SIGKILL)
        else:
            thrown = ControllerError("the C++ code threw 'it was ended by SIGKILL' in its step")
            monkeypatch.setattr("hitl.worker.process.Worker.why_gone", lambda _: thrown)
        with pytest.raises(ControllerError, match="was ended by SIGKILL"):
            stepped(controller, 1, 0.0 if killed else FAULTS.index("null"))
        assert controller.environment is killed
        controller.close()


def test_an_endless_step_there_is_ended_there(plain: Build, tmp_path: Path) -> None:
    with served(plain) as there:
        controller = client(plain, there.endpoint, tmp_path, silence=0.05)
        _, error = flown(loop(controller, "endless"))
        assert "faulty did not answer within 0.05 s" in str(error)
        there.wait_for("the client is gone")
        assert stepped_once(controller) == [1.0]


def stepped_once(controller: SilController) -> list[float]:
    one = controller.fresh()
    try:
        return stepped(one, 1)
    finally:
        one.close()


def test_a_second_client_is_told_that_it_is_busy(plain: Build, tmp_path: Path) -> None:
    with served(plain) as there:
        first = client(plain, there.endpoint, tmp_path).fresh()
        with pytest.raises(ControllerError, match="busy with another client"):
            client(plain, there.endpoint, tmp_path).fresh()
        assert stepped(first, 1) == [1.0], "the first one does not notice"
        first.close()
        assert stepped_once(client(plain, there.endpoint, tmp_path)) == [1.0]


def test_nobody_there(plain: Build, tmp_path: Path) -> None:
    controller = client(plain, free_endpoint(), tmp_path, patience=0.1)
    with pytest.raises(
        ControllerError, match=r"no answer from .*; start the server: rtsim sil serve"
    ):
        controller.fresh()


def test_no_server_of_ours_there(plain: Build, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        endpoint = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(
            ControllerError,
            match=r"does not answer: either the program at this address is not rtsim sil serve",
        ):
            client(plain, endpoint, tmp_path, patience=0.2).fresh()


def test_another_interface_there(plain: Build, tmp_path: Path) -> None:
    text = plain.interface.path.read_text().replace("x = {}", 'x = { unit = "m" }')
    other = plain.interface.path.with_name("other.toml")
    other.write_text(text)
    with served(plain) as there:
        controller = SilController(other, endpoint=there.endpoint, cases=tmp_path)
        with pytest.raises(ControllerError, match="was built from another interface"):
            controller.fresh()
        assert stepped_once(client(plain, there.endpoint, tmp_path)) == [1.0]


def test_a_server_that_goes_away(plain: Build, tmp_path: Path) -> None:
    with served(plain) as there:
        controller = client(plain, there.endpoint, tmp_path).fresh()
        assert stepped(controller, 1) == [1.0]
    controller.send(Tag(2), np.zeros(2))
    with pytest.raises(ControllerError, match=r"the connection to .* is lost\ninputs: fault=0"):
        controller.receive(Tag(2), 10.0)
    controller.close()


def test_a_client_that_is_killed_takes_its_worker_with_it(plain: Build, tmp_path: Path) -> None:
    program = (
        "import sys; from hitl.controllers.sil import SilController; "
        "from rtsim.core.tag import Tag\n"
        "c = SilController(sys.argv[1], endpoint=sys.argv[2]).fresh()\n"
        "print('there', flush=True); sys.stdin.read()"
    )
    with served(plain) as there:
        command = [sys.executable, "-c", program, str(plain.interface.path), there.endpoint]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as one:
            assert one.stdout is not None
            assert one.stdout.readline() == b"there\n"
            pid = int(there.said[0].rpartition(" ")[2])
            assert alive(pid)
            one.kill()
        there.wait_for("the client is gone")
        assert not alive(pid)
        assert stepped_once(client(plain, there.endpoint, tmp_path)) == [1.0]


def test_noise_at_the_port(plain: Build, tmp_path: Path) -> None:
    with served(plain) as there:
        host, port = there.endpoint.removeprefix("tcp://").split(":")
        for data in (b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)), b"\xff" + bytes(9) + b"\x7f"):
            with socket.create_connection((host, int(port))) as noise:
                noise.sendall(data)
        assert stepped_once(client(plain, there.endpoint, tmp_path)) == [1.0]


# -- keys -----------------------------------------------------------------------------------------


def test_keys(plain: Build, tmp_path: Path) -> None:
    path = tmp_path / "lab.keys"
    held = keys_of(path)
    assert [p.stat().st_mode & 0o777 for p in sorted(tmp_path.iterdir())] == [0o600, 0o600]
    assert keys_of(path) == held, "written once"
    keys = Keys.load(tmp_path / f"lab.keys{CLIENT}")
    assert keys.secret not in path.read_text()
    assert held.secret not in (tmp_path / f"lab.keys{CLIENT}").read_text()
    with served(plain, held) as there:
        assert stepped_once(client(plain, there.endpoint, tmp_path, keys=keys)) == [1.0]
        strangers = keys_of(tmp_path / "other.keys")
        half = Keys(strangers.public, strangers.secret, keys.server)  # knows whom to ask, no more
        for wrong in (None, strangers, half):
            controller = client(plain, there.endpoint, tmp_path, keys=wrong, patience=0.3)
            with pytest.raises(ControllerError, match=r"keys|lost"):
                controller.fresh()
        assert stepped_once(client(plain, there.endpoint, tmp_path, keys=keys)) == [1.0]


@pytest.mark.parametrize(
    ("endpoint", "wanted"),
    [
        ("tcp://192.0.2.1:5555", "so the link needs keys; give --keys FILE"),
        ("tcp://*:5555", "reachable from other machines"),
        ("tcp://127.0.0.1", "write tcp://HOST:PORT"),
        ("tcp://127.0.0.1:0", "write tcp://HOST:PORT"),
        ("tcp://127.0.0.1:99999", "write tcp://HOST:PORT"),
        ("ipc:///somewhere/else", "write tcp://HOST:PORT"),
        ("5555", "write tcp://HOST:PORT"),
    ],
)
def test_addresses(endpoint: str, wanted: str, plain: Build, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=wanted):
        client(plain, endpoint, tmp_path).fresh()
    with pytest.raises(ScenarioError, match=wanted):
        Server(plain, endpoint)


def test_a_taken_address(plain: Build) -> None:
    with served(plain) as there, pytest.raises(ScenarioError, match=r"cannot listen at .*in use"):
        Server(plain, there.endpoint)


@pytest.mark.parametrize("text", ["", "{}", '{"public": 1}', "[" * 10, json.dumps([1, 2])])
def test_files_that_hold_no_keys(text: str, tmp_path: Path) -> None:
    path = tmp_path / "no.keys"
    with pytest.raises(ScenarioError, match="rtsim keys FILE writes FILE"):
        Keys.load(path)
    path.write_text(text)
    with pytest.raises(ScenarioError, match="is not a key file"):
        keys_of(path)


def test_the_command(plain: Build, tmp_path: Path) -> None:
    """Ctrl-C ends it, and leaves no worker."""
    endpoint = free_endpoint()
    rtsim = Path(sys.executable).with_name("rtsim")
    command = [str(rtsim), "sil", "serve", str(plain.interface.path), "--bind", endpoint]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        ExitStack() as undo,
    ):
        undo.callback(server.kill)
        assert server.stdout is not None
        assert "Ctrl-C ends the server" in server.stdout.readline()
        controller = client(plain, endpoint, tmp_path).fresh()
        assert stepped(controller, 1) == [1.0]
        pid = int(server.stdout.readline().rpartition(" ")[2])
        server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0
        assert server.stdout.read() == "ended\n"
        assert not alive(pid)
    with pytest.raises(ControllerError, match="lost"):
        stepped(controller, 2)
    controller.close()


def test_hold_over_tcp_replays(plain: Build, tmp_path: Path) -> None:
    with served(plain) as there:
        recorder = MemoryRecorder()
        scenario = loop(client(plain, there.endpoint, tmp_path), "abort", failure="hold")
        simulate(scenario, recorder=recorder)
    kinds = [e.kind for e in recorder.recording().events]
    assert kinds == ["Change", "Failed", *["Missed"] * 6]

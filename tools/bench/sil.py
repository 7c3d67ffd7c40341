"""SIL: what it costs to ask the C, and whether it answers in time.

All with NASA's law for the F-16 (20 inputs, 4 outputs).  A step through the worker over ZeroMQ is
held against a bare pyzmq ping-pong of the same sizes between two Python processes, and beside what
a broker process between ZeroMQ and a pipe would cost (docs/decisions/030-libzmq-in-the-worker.md).
A step at 1 kHz over shared memory is held against a bare ping-pong of two C programs over the same
memory, and against ZeroMQ (docs/decisions/128-shared-memory-link.md).
At 1 kHz in real time the worker and the ping-pong fly in the same scenario under the same
allowance; both counts of Late are those of the executive.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import zmq

from hitl.building.build import build
from hitl.building.toolchain import BuildError, find_toolchain
from hitl.controllers.in_process import InProcess
from hitl.controllers.sil import SilController
from hitl.worker.link import ZMQ
from hitl.worker.messages import HEADER_BYTES
from rtsim.components.controller import ControllerProtocol
from rtsim.core.clock import stopwatch
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.models.f16.controller import LAW_INPUTS, LAW_OUTPUTS
from rtsim.models.f16.scenario import case
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from tools.bench import sil_link
from tools.bench.frame import recorder
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns, median_ratio, spread

LAW = Path(__file__).resolve().parents[2] / "firmware" / "core" / "f16_control.toml"
PEERS = Path(__file__).with_name("sil_peers.py")
RATIO, IN_PROCESS_NS = 1.3, 2_000.0
ALLOWED_S = 0.0005
"""Of the period of 1 ms."""
REQUEST_BYTES = HEADER_BYTES + 8 * LAW_INPUTS.size
ANSWER_BYTES = HEADER_BYTES + 8 * LAW_OUTPUTS.size
_BLOCK = 100
_NAMES = ("worker", "ping-pong", "broker")


class PingPong:
    """A controller that is a bare ping-pong: it sends and receives bytes of the right size.

    Its outputs are those of the trim: nothing is computed at the other end.
    """

    outside = True
    inputs, outputs = LAW_INPUTS, LAW_OUTPUTS

    def __init__(self) -> None:
        self._request = bytes(REQUEST_BYTES)
        self._y = self.outputs.initial(case("13.1").inputs)
        self._undo = ExitStack()

    def fresh(self) -> PingPong:
        out = PingPong()
        folder = out._undo.enter_context(tempfile.TemporaryDirectory(prefix="rtsim-bench-"))
        context = out._undo.enter_context(zmq.Context())
        out._socket = out._undo.enter_context(context.socket(zmq.PAIR))
        out._socket.setsockopt(zmq.LINGER, 200)
        out._socket.bind(f"ipc://{folder}/echo")
        command = [sys.executable, str(PEERS), "echo", str(ANSWER_BYTES), f"ipc://{folder}/echo"]
        process = subprocess.Popen(command)
        out._undo.callback(process.wait)
        out._undo.callback(out._socket.send, b"")
        out._socket.recv()
        return out

    _socket: zmq.Socket[bytes]

    def exchange(self) -> None:
        """There and back, waiting as long as it takes."""
        self._socket.send(self._request)
        self._socket.recv()

    def send(self, tag: Tag, inputs: Vector) -> None:  # noqa: ARG002
        self._socket.send(self._request)

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        until = stopwatch() + int(patience * NS_PER_S)
        while True:
            try:
                self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                if stopwatch() >= until:
                    return None
            else:
                return self._y

    def close(self) -> None:
        self._undo.close()


def run(
    quick: bool = False, rounds: int = 0, steps: int = 0, flights: int = 0, seconds: float = 0.0
) -> Result:
    """Measure; ``steps`` are those of a contender in a round, ``seconds`` those of a flight."""
    title = f"the F-16's law as C: {REQUEST_BYTES} bytes there, {ANSWER_BYTES} back"
    try:
        find_toolchain()
    except BuildError as error:
        return Result("sil", title, skipped=str(error))
    rounds = rounds or (3 if quick else 20)
    rows = _exchanges(rounds, steps or (200 if quick else 2000))
    rows += _at_1_khz(rounds, max(1, (steps or (200 if quick else 2000)) // 2))
    rows += _in_process(20 * rounds)
    rows += _in_time(flights or (2 if quick else 6), seconds or (1.0 if quick else 10.0))
    return Result("sil", title, tuple(rows))


# -- a step, there and back


def _exchanges(rounds: int, steps: int) -> list[Row]:
    samples: dict[str, list[int]] = {name: [] for name in _NAMES}
    with ExitStack() as undo:
        calls = {
            "worker": _stepping(undo, SilController(LAW, link=ZMQ)),
            "ping-pong": _bouncing(undo),
            "broker": _stepping(undo, undo.enter_context(_brokered())),
        }

        def contender(name: str) -> Callable[[], float]:
            return lambda: _timed(calls[name], steps, samples[name])

        medians = in_turns({name: contender(name) for name in _NAMES}, rounds)
    ratio = median_ratio(medians["worker"], medians["ping-pong"])
    against = median_ratio(medians["broker"], medians["worker"])
    return [
        Row("step through the worker", {**spread(samples["worker"]),
            "ratio [x]": ratio}, f"<= {RATIO} x ping-pong", ratio <= RATIO),
        Row("bare pyzmq ping-pong", spread(samples["ping-pong"])),
        Row("step through a broker", {**spread(samples["broker"]), "ratio [x]": against},
            "x the worker"),
    ]  # fmt: skip


def _timed(call: Callable[[], None], steps: int, into: list[int]) -> float:
    """The median of ``steps`` calls [ns]; each is added to ``into``."""
    took = []
    for _ in range(steps):
        began = stopwatch()
        call()
        took.append(stopwatch() - began)
    into += took
    return float(np.median(took))


def _stepping(undo: ExitStack, controller: SilController | InProcess) -> Callable[[], None]:
    return _step_of(undo, controller.fresh())


def _exchange(undo: ExitStack, controller: SilController) -> sil_link.Exchange:
    running = controller.fresh()
    return sil_link.Exchange(_step_of(undo, running), running.warm_up())


def _step_of(undo: ExitStack, running: SilController | InProcess) -> Callable[[], None]:
    undo.callback(running.close)
    tag, inputs = Tag(0), np.linspace(0.0, 1.0, LAW_INPUTS.size)

    def step() -> None:
        running.send(tag, inputs)
        if running.receive(tag, 10.0) is None:
            raise RuntimeError("no answer within 10 s")

    return step


def _bouncing(undo: ExitStack) -> Callable[[], None]:
    running = PingPong().fresh()
    undo.callback(running.close)
    return running.exchange


@contextmanager
def _brokered() -> Iterator[SilController]:
    """The same worker behind a broker: its libzmq is a pair of pipes."""
    made = build(LAW)
    with tempfile.TemporaryDirectory(prefix="rtsim-bench-") as name:
        shim = Path(name) / "pipe.so"
        source = Path(__file__).with_name("sil_pipe.c")
        flags: list[str | Path] = ["-O2", "-Wall", "-fPIC", "-shared", source, "-o", shim]
        find_toolchain().run(flags, source.parent)
        command: list[str | Path] = [sys.executable, PEERS, "broker", made.program, shim]
        yield SilController(made, command=command)


def _at_1_khz(rounds: int, steps: int) -> list[Row]:
    with ExitStack() as undo:
        step = {
            name: _exchange(undo, SilController(LAW, link=link))
            for name, link in ((sil_link.SHARED, None), (sil_link.ZEROMQ, ZMQ))
        }
        return sil_link.rows(step, (REQUEST_BYTES, ANSWER_BYTES), rounds, steps)


def _in_process(blocks: int) -> list[Row]:
    """Steps by the hundred: one takes about as long as it takes to read the clock."""
    with ExitStack() as undo:
        step = _stepping(undo, InProcess(LAW))

        def block() -> None:
            for _ in range(_BLOCK):
                step()

        took: list[int] = []
        _timed(block, blocks, took)
    figures = spread(np.array(took[1:]) / _BLOCK)
    median = figures["median [ns]"]
    assert median is not None
    bound = f"median <= {IN_PROCESS_NS / 1e3:g} us"
    return [Row("step in process", figures, bound, median <= IN_PROCESS_NS)]


# -- in time, at 1 kHz


def _in_time(rounds: int, seconds: float) -> list[Row]:
    """Both fly in each round; what they differ by is held against how much that varies."""
    late: dict[str, list[int]] = {"worker": [], "ping-pong": []}
    for k in range(rounds):
        for name in list(late)[:: 1 if k % 2 == 0 else -1]:
            late[name].append(_flown(name, seconds))
    more = np.array(late["worker"]) - np.array(late["ping-pong"])
    chance = 2.0 * more.std(ddof=1) / np.sqrt(rounds)
    steps = float(rounds * round(seconds * 1000))
    ours, theirs = ({"late": float(sum(counts)), "steps": steps} for counts in late.values())
    kept = bool(more.mean() <= chance)
    return [
        Row("SIL at 1 kHz in real time", ours, "<= ping-pong, within chance", kept),
        Row("ping-pong at 1 kHz in real time", theirs),
    ]


def _flown(name: str, seconds: float) -> int:
    """Late and Missed of one flight in real time."""
    controller: ControllerProtocol = SilController(LAW) if name == "worker" else PingPong()
    scenario = load_scenario("f16", {"case": "13.1", "rate": "1000", "step": "0.001"})
    scenario.replace_controller("autopilot", controller, latency=ALLOWED_S)
    with recorder(True) as file:
        outcome = simulate(scenario, pace=1.0, until=seconds, recorder=file)
    return outcome.late + outcome.missed

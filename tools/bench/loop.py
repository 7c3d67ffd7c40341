"""A closed loop of rtsim in real time on the compiled engine, in a process of its own.

A plant, a controller at the rate of the loop, and a recording to a file.  The benches of the wake
lateness and of high rates hold it against a C loop that only waits (``wake.c``).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hitl.controllers.in_process import InProcess
from rtsim.components.controller import ControllerProtocol, PythonController
from rtsim.core.clock import WallClock
from rtsim.models.unstable import UNSTABLE, Stabiliser
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.runs.simulation import Pace, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.timing.frames import NO_SAMPLE
from rtsim.timing.policy import CatchUp
from rtsim.timing.scheduling import SchedulingRequest

Late = NDArray[np.int64]


def _python(rate: int) -> PythonController:
    """The controller of the model ``unstable``, compiled, with its integral for ``rate`` Hz."""
    return Stabiliser(integral=5.0 / rate).controller()


def _c(rate: int) -> InProcess:
    """The same controller in C, in the process of the loop."""
    return InProcess(Path(__file__).with_name("loop_control.toml"), {"integral": 5.0 / rate})


CONTROLLERS: dict[str, Callable[[int], ControllerProtocol]] = {"python": _python, "c": _c}
"""By name: a controller of the model ``unstable`` for a rate in Hz."""
CONTROLLER = "c"
"""The benches' choice."""


@dataclass(frozen=True)
class Asked:
    """A loop: ``rate`` in Hz, ``fifo`` a priority or 0, ``spin_ns`` the busy-wait window."""

    rate: int
    seconds: float
    spin_ns: int
    fifo: int = 0
    controller: str = CONTROLLER


@dataclass(frozen=True)
class Measured:
    """A loop that was measured; times in ns, ``late`` of each tag."""

    late: Late
    overruns: int
    tolerance: int
    computed: float
    computed_p99_9: float | None
    engine: str
    rows: int
    dropped_rows: int


class Windowed(WallClock):
    """A wall clock whose busy-wait window begins at a given length."""

    def __init__(self, spin_ns: int) -> None:
        super().__init__(1.0)
        self._given_ns = spin_ns

    def calibrate(self, period_ns: int | None = None, samples: int = 1) -> int:
        super().calibrate(period_ns, samples)
        self.spin_ns = self.most_spin_ns = self._least_spin_ns = self._given_ns
        return self.spin_ns


def scenario(rate: int, controller: str) -> Scenario:
    """The unstable plant and a controller, both at ``rate`` Hz."""
    out, period = Scenario("loop"), f"1/{rate}"
    out.plant("plant", UNSTABLE, step=period, inputs={"force": "controller.force"})
    out.controller(
        "controller", CONTROLLERS[controller](rate), period=period,
        inputs={"x": "plant.x", "v": "plant.v"},
    )  # fmt: skip
    return out


def lateness(rows: NDArray[np.int64], tolerance: int) -> Late:
    """How late each tag began after the first, ns.

    ``rows`` (n, 4): the track of the timing; the margin of a frame says how late the next tag was
    where that one did not wait.
    """
    woke, margin = rows[:, 1], rows[:, 3]
    return np.where(woke[1:] == NO_SAMPLE, tolerance - margin[:-1], woke[1:])


def measure(asked: Asked) -> Measured:
    """Run the loop in a process of its own."""
    command = [sys.executable, "-m", "tools.bench.loop", json.dumps(asdict(asked))]
    root = Path(__file__).resolve().parents[2]
    patience = 120.0 + 10.0 * asked.seconds
    out = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, timeout=patience, cwd=root
    ).stdout
    line, _, data = out.partition(b"\n")
    return Measured(late=np.frombuffer(data, np.int64), **json.loads(line))


def fly(asked: Asked) -> Measured:
    """Run the loop in this process."""
    request = SchedulingRequest(fifo=asked.fifo)
    pace = Pace(1.0, CatchUp(10**9), request)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "loop.mcap")
        file = FileRecorder(path)
        outcome = simulate(
            scenario(asked.rate, asked.controller), pace=pace, until=asked.seconds, recorder=file,
            clock=Windowed(asked.spin_ns), engine="compiled",
        )  # fmt: skip
        rows = np.asarray(Recording.open(path).track("timing").words)
    found = outcome.certificate
    return Measured(
        lateness(rows, found.tolerance_ns), sum(found.overruns.values()), found.tolerance_ns,
        found.compute.median or 0.0, found.compute.p99_9, found.engine, file.handed.rows,
        file.handed.dropped_rows,
    )  # fmt: skip


def main() -> None:
    """Measure as asked on the command line; one line of JSON, then the lateness, on stdout."""
    found = fly(Asked(**json.loads(sys.argv[1])))
    said = {name: value for name, value in vars(found).items() if name != "late"}
    sys.stdout.buffer.write(json.dumps(said).encode() + b"\n" + found.late.tobytes())


if __name__ == "__main__":
    main()

"""A step of a worker at 1 kHz over each link, against a bare C ping-pong over the same memory.

Both wait as a run in real time does: they sleep to the same time before the deadline, and spin.
Before the deadline the pacer calls the controller's warm-up, as it does in a run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hitl.building.toolchain import find_toolchain
from hitl.building.unit import SUPPORT
from rtsim.core.clock import WallClock, stopwatch
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import CatchUp
from tools.bench.results import Row
from tools.bench.turns import in_turns, median_ratio, spread

PERIOD_NS = 1_000_000
RATIO = 1.5
SHARED, BARE, ZEROMQ = "shared memory", "ping-pong", "ZeroMQ"
_ABSENT = "step at 1 kHz over shared memory: only on Linux"


@dataclass(frozen=True)
class Exchange:
    """One exchange with a controller, and the warm-up of one."""

    step: Callable[[], None]
    warm_up: Callable[[], object] | None


def rows(step: dict[str, Exchange], sizes: Sequence[int], rounds: int, steps: int) -> list[Row]:
    """Measure ``steps`` exchanges in each round; ``step`` has one exchange by link.

    ``sizes`` are the bytes of a request and of an answer.
    """
    if not sys.platform.startswith("linux"):
        return [Row(_ABSENT, {})]
    samples: dict[str, list[int]] = {name: [] for name in (SHARED, BARE, ZEROMQ)}
    with ExitStack() as stack:
        program = _compiled(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        spin_ns = WallClock().calibrate(PERIOD_NS)
        command = [str(program), *map(str, (steps, PERIOD_NS, spin_ns, *sizes))]
        medians = in_turns(
            {
                SHARED: lambda: _paced(step[SHARED], steps, spin_ns, samples[SHARED]),
                BARE: lambda: _bounced(command, samples[BARE]),
                ZEROMQ: lambda: _paced(step[ZEROMQ], steps, spin_ns, samples[ZEROMQ]),
            },
            rounds,
        )
    ratio = median_ratio(medians[SHARED], medians[BARE])
    ours, theirs = (spread(samples[name]) for name in (SHARED, ZEROMQ))
    tails = [float(np.percentile(samples[name], 99.0)) for name in (SHARED, ZEROMQ)]
    return [
        Row("step at 1 kHz over shared memory", {**ours, "ratio [x]": ratio},
            f"<= {RATIO} x C ping-pong", ratio <= RATIO),
        Row("C ping-pong over the same memory", spread(samples[BARE])),
        Row("step at 1 kHz over ZeroMQ", {**theirs, "ratio [x]": tails[0] / tails[1]},
            "p99 above that of shared memory", tails[0] < tails[1]),
    ]  # fmt: skip


def _paced(exchange: Exchange, steps: int, spin_ns: int, into: list[int]) -> float:
    """The median of ``steps`` calls [ns], one each period; each is added to ``into``."""
    took = []
    pacer = Pacer(WallClock(spin_ns=spin_ns), CatchUp(10**9), frame_ns=PERIOD_NS)
    if exchange.warm_up is not None:
        pacer.warm_ups.append(exchange.warm_up)
    step = exchange.step
    pacer.start(0)
    for k in range(steps):
        pacer.wait((k + 1) * PERIOD_NS)
        began = stopwatch()
        step()
        took.append(stopwatch() - began)
    pacer.stop()
    into += took
    return float(np.median(took))


def _bounced(command: Sequence[str], into: list[int]) -> float:
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    took = np.frombuffer(output, np.int64)
    into += took.tolist()
    return float(np.median(took))


def _compiled(folder: Path) -> Path:
    program = folder / "sil_link"
    source = Path(__file__).with_suffix(".c")
    flags: list[str | Path] = ["-std=gnu11", "-O2", "-Wall", f"-I{SUPPORT}", source, "-o", program]
    find_toolchain().run(flags, folder)
    return program

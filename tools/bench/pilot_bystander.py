"""Other work beside a loop, as much of it as a window does.

``python -m tools.bench.pilot_bystander SHARE RATE`` computes SHARE of the time, in RATE bursts a
second, with the scheduling and on the processor of a window.  It shares nothing with the loop.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from rtsim.core.clock import WallClock, stopwatch
from rtsim.core.tag import NS_PER_S
from rtsim.timing.scheduling import SchedulingRequest, request
from tools.bench.pilot_witness import ROOT

_MOST = 0.95
"""Of a processor's time, so that each burst ends before the next one."""


@contextmanager
def bystander(share: float, rate: float) -> Iterator[int]:
    """Let another process, whose number is given, compute ``share`` of the time meanwhile."""
    words = [sys.executable, "-m", "tools.bench.pilot_bystander", str(share), str(rate)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError(f"the other work did not begin: {' '.join(words)}")
            yield process.pid
            if process.poll() is not None:
                raise RuntimeError(f"the other work ended before the run: {' '.join(words)}")
        finally:
            process.kill()


@contextmanager
def measured_share(process: int, to: list[float]) -> Iterator[None]:
    """Add the share of a processor's time that a process takes meanwhile, where Linux says it."""
    before, began = _computed_s(process), stopwatch()
    yield
    after, took = _computed_s(process), (stopwatch() - began) / NS_PER_S
    if before is not None and after is not None:
        to.append((after - before) / took)


def _computed_s(process: int) -> float | None:
    """Return the time that a process has computed, s, for itself and in the kernel."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main(share: float, rate: float) -> None:
    period = round(NS_PER_S / rate)
    burst = round(min(share, _MOST) * period)
    clock = WallClock(spin_ns=0)
    with request(SchedulingRequest.window()):
        print("computing", flush=True)
        clock.anchor(0)
        for k in count(1):
            clock.wait_until(k * period)
            until = stopwatch() + burst
            while stopwatch() < until:
                pass


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))

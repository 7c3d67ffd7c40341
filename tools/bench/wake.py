"""Wake lateness at 1 kHz: the pacer against a C loop that does the same, and against SimPy.

``python -m tools.bench.wake [--quick] [--seconds 5] [--fifo 50] [--json]``

The C loop (``wake.c``) is compiled on the spot.  Both sleep to an absolute deadline less the same
tail, spin the rest, run in a process of their own, in the same scheduling class and with the same
timer slack; they take turns in ten rounds, each in the reverse order of the one before.  A figure
is the median over the rounds: ten short rounds say more than few long ones.  SimPy's real-time
environment runs once beside them, as it comes.

*The pacer* is a loop of Python around ``Pacer.wait``; its lateness is read after ``wait`` has
returned, so its own work counts against it.  *The engine* is a recorded closed loop on the compiled
engine; its lateness is what rtsim reports, and of a tag that did not wait how late it began.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from hitl.building.toolchain import BuildError, find_toolchain
from rtsim.core.clock import WallClock, stopwatch
from rtsim.timing.certificate import show_ns
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import CatchUp
from rtsim.timing.scheduling import SchedulingRequest, examine_machine, request
from tools.bench.loop import Asked, Late, measure

LOOPS = (("C", "c"), ("rtsim pacer", "rtsim"), ("rtsim engine", "engine"), ("SimPy", "simpy"))
"""What the loops are called, and their keys in the data."""
PERIOD_NS = 1_000_000
FIGURES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}
P50_WITHIN_NS = 2_000
TAIL_RATIO, TAIL_WITHIN_NS = 1.5, 5_000
ENGINE_RATIO, ENGINE_WITHIN_NS = 1.1, 3_000


class NoCompiler(Exception):
    """There is no C compiler on this machine."""


def run(quick: bool = False, seconds: float | None = None, fifo: int = 0) -> dict[str, Any]:
    """Measure; plain data.  ``seconds`` is the length of one loop (5; quick: 2)."""
    length = seconds if seconds is not None else (2.0 if quick else 5.0)
    pairs, count = (2 if quick else 10), max(1000, int(length * 1e9 / PERIOD_NS))
    with request(SchedulingRequest(fifo=fifo)) as granted:
        spin_ns = WallClock().calibrate(PERIOD_NS)
    fifo = fifo if granted["class"].ok else 0
    asked = Asked(10**9 // PERIOD_NS, count * PERIOD_NS / 1e9, spin_ns, fifo)
    with tempfile.TemporaryDirectory() as folder:
        program = compile_loop(Path(folder))
        loops: dict[str, Callable[[], Late]] = {
            "c": lambda: c_loop(program, PERIOD_NS, count, spin_ns, fifo),
            "rtsim": lambda: _worker("rtsim", count, spin_ns, fifo),
            "engine": lambda: measure(asked).late,
        }
        rounds: dict[str, list[dict[str, float]]] = {name: [] for name in loops}
        for pair in range(pairs):
            for name in loops if pair % 2 == 0 else reversed(loops):
                rounds[name].append(_figures(loops[name]()))
    loops_median = {name: _over_pairs(figures) for name, figures in rounds.items()}
    return {
        "bench": "wake",
        "rate_hz": 10**9 // PERIOD_NS,
        "seconds": length,
        "pairs": pairs,
        "spin_ns": spin_ns,
        "machine": examine_machine().__dict__,
        "scheduling": granted.to_json(),
        **loops_median,
        "rounds": rounds,
        "simpy": _simpy(count),
        "criteria": _criteria(**loops_median),
    }


def _criteria(
    c: dict[str, float], rtsim: dict[str, float], engine: dict[str, float]
) -> list[dict[str, Any]]:
    """The verdicts on the pacer, and on the 99th percentile of the engine."""
    found = [("rtsim", "p50", c["p50"] + P50_WITHIN_NS)]
    for name in ("p99", "p99.9"):
        found.append(("rtsim", name, max(c[name] * TAIL_RATIO, c[name] + TAIL_WITHIN_NS)))
    most = max(c["p99"] * ENGINE_RATIO, c["p99"] + ENGINE_WITHIN_NS)
    found.append(("engine", "p99", most))
    ours = {"rtsim": rtsim, "engine": engine}
    return [
        {"loop": loop, "figure": name, "ns": ours[loop][name], "allowed_ns": most,
         "ok": ours[loop][name] <= most}
        for loop, name, most in found
    ]  # fmt: skip


def _figures(late: Late) -> dict[str, float]:
    values = np.percentile(late, list(FIGURES.values()), method="inverted_cdf")
    return dict(zip(FIGURES, map(float, values), strict=True)) | {"max": float(late.max())}


def _over_pairs(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.median([figures[name] for figures in rounds])) for name in rounds[0]}


# -- the loops


def compile_loop(folder: Path) -> Path:
    """Compile the C loop into ``folder``; raises :class:`NoCompiler`."""
    try:
        compiler = find_toolchain()
    except BuildError as error:
        raise NoCompiler(str(error)) from None
    program = folder / "wake"
    source = Path(__file__).with_suffix(".c")
    compiler.run(["-O2", "-Wall", "-o", program, source], folder)
    return program


def c_loop(program: Path, period_ns: int, count: int, spin_ns: int, fifo: int) -> Late:
    """Run the C loop for ``count`` periods; how late each wake was, ns."""
    arguments = map(str, (period_ns, count, spin_ns, fifo))
    return _late([str(program), *arguments], count, period_ns)


def _late(command: list[str], count: int, period_ns: int) -> Late:
    patience = 60 + 10 * count * period_ns / 1e9
    root = Path(__file__).resolve().parents[2]
    output = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, timeout=patience, cwd=root
    ).stdout
    late = np.frombuffer(output, dtype=np.int64)
    if late.shape != (count,):
        raise RuntimeError(f"{command[0]} wrote {late.size} values, expected {count}")
    return late


def _worker(name: str, count: int, spin_ns: int, fifo: int) -> Late:
    arguments = map(str, (PERIOD_NS, count, spin_ns, fifo))
    command = [sys.executable, "-m", "tools.bench.wake", "--worker", name, *arguments]
    return _late(command, count, PERIOD_NS)


def _rtsim_loop(count: int, spin_ns: int, fifo: int) -> Late:
    late = np.zeros(count, dtype=np.int64)
    with request(SchedulingRequest(fifo=fifo)):
        clock = WallClock(spin_ns=spin_ns)
        pacer = Pacer(clock, CatchUp(10**9), frame_ns=PERIOD_NS)
        pacer.start(0)
        for k in range(count):
            due = (k + 1) * PERIOD_NS
            pacer.wait(due)
            late[k] = clock.now() - clock.wall(due)
        pacer.stop()
    return late


def _simpy_loop(count: int) -> Late:
    import simpy.rt

    late = np.zeros(count, dtype=np.int64)
    period = PERIOD_NS / 1e9
    environment = simpy.rt.RealtimeEnvironment(factor=1.0, strict=False)

    def process() -> Any:
        start = stopwatch()
        for k in range(count):
            yield environment.timeout((k + 1) * period - environment.now)
            late[k] = stopwatch() - start - (k + 1) * PERIOD_NS

    environment.process(process())
    environment.sync()
    environment.run()
    return late


def _simpy(count: int) -> dict[str, Any]:
    try:
        import simpy.rt  # noqa: F401
    except ModuleNotFoundError:
        return {"skipped": "SimPy is not installed; type: pip install 'rtsim[bench]'"}
    return dict(_figures(_worker("simpy", count, 0, 0)))


# -- for people


def show(result: dict[str, Any]) -> Table:
    title = (
        f"Wake lateness at {result['rate_hz']} Hz, {result['pairs']} pairs of "
        f"{result['seconds']:g} s, median over the pairs, tail {show_ns(result['spin_ns'])}"
    )
    table = Table(title=title, title_justify="left")
    for heading in ("loop", *FIGURES, "max"):
        table.add_column(heading, justify="left" if heading == "loop" else "right")
    for label, name in LOOPS:
        row = result[name]
        if "skipped" in row:
            table.add_row(label, row["skipped"])
        else:
            table.add_row(label, *(show_ns(round(row[key])) for key in (*FIGURES, "max")))
    table.add_section()
    for c in result["criteria"]:
        cells = {c["figure"]: show_ns(round(c["allowed_ns"]))}
        verdict = "kept" if c["ok"] else "NOT kept"
        table.add_row(f"{c['loop']}, allowed", *(cells.get(f, "") for f in FIGURES), verdict)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="two pairs of 2 s: does it work?")
    parser.add_argument("--seconds", type=float, help="length of one loop (default 5)")
    parser.add_argument("--fifo", type=int, default=0, help="SCHED_FIFO priority for both loops")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        name, (_, count, spin_ns, fifo) = given.worker[0], map(int, given.worker[1:])
        loop = _simpy_loop(count) if name == "simpy" else _rtsim_loop(count, spin_ns, fifo)
        sys.stdout.buffer.write(loop.tobytes())
        return 0
    try:
        result = run(given.quick, given.seconds, given.fifo)
    except NoCompiler as error:
        print(f"wake bench: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps(result, indent=2))
    else:
        Console().print(show(result))
    return 0 if all(c["ok"] for c in result["criteria"]) else 1


if __name__ == "__main__":
    raise SystemExit(main())

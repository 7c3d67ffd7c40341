"""A C controller that does wrong when it is told to, and the smallest loop around it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hitl.building.build import PLAIN, Build, build
from hitl.controllers.sil import SilController
from hitl.interface import Interface, load_interface
from rtsim.components.latency import Fixed
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signals
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario

FAULTS = (
    "none", "null", "divide", "abort", "deep", "exit", "endless", "heap", "stack", "global",
    "overflow", "nan", "inf", "chatter", "chatter and abort",
)  # fmt: skip
"""What the input ``fault`` makes it do, by number."""
_SOURCE = r"""
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int start, end;
static double steps;
static volatile int table[4];

__attribute__((noinline)) static int deep(volatile int depth)
{
    volatile char frame[4096];
    frame[0] = (char)depth;
    return depth < 0 ? 0 : deep(depth + 1) + frame[0];
}

static void chatter(void)
{
    for (int k = 0; k < 40000; k++) {
        printf("%d: a line of some characters, as a debugging printf writes it\n", k);
        fprintf(stderr, "%d: and the same once more on the other stream, for the same reason\n", k);
    }
    fflush(stdout);
}

void faulty_initialize(void)
{
    steps = 0;
    if (start == 1) abort();
    for (volatile int more = start == 2; more;) { }
}

double faulty_step(double fault, double x)
{
    volatile int zero = 0, index = 4, large = INT_MAX;
    volatile int local[4] = {0, 0, 0, 0};
    volatile int *volatile heap;
    volatile int *volatile nowhere = NULL;
    steps += 1;
    switch ((int)fault) {
    case 1: *nowhere = 1; break;
    case 2: zero = large / zero; break;
    case 3: abort();
    case 4: zero = deep(1); break;
    case 5: exit(0);
    case 6: for (volatile int more = 1; more;) { } break;
    case 7: heap = malloc(4 * sizeof *heap); heap[index] = 1; free((void *)heap); break;
    case 8: local[index] = 1; break;
    case 9: table[index] = 1; break;
    case 10: large = large + 1; break;
    case 11: return NAN;
    case 12: return INFINITY;
    case 13: chatter(); break;
    case 14: chatter(); abort();
    }
    return steps + 0.5 * x;
}

void faulty_terminate(void)
{
    if (end == 1) abort();
    for (volatile int more = end == 2; more;) { }
}
"""
_INTERFACE = """
name = "faulty"
period = "1/100"
sources = ["faulty.c"]
headers = ["faulty.h"]
[code]
initialize = "faulty_initialize()"
step = "y = faulty_step(fault, x)"
terminate = "faulty_terminate()"
parameters = "before initialize"
[inputs]
fault = {}
x = {}
[outputs]
y = {}
[parameters]
start = { c = "start", type = "int32" }
end = { c = "end", type = "int32" }
"""
_HEADER = """
extern int start, end;
void faulty_initialize(void);
double faulty_step(double fault, double x);
void faulty_terminate(void);
"""
MS = 1_000_000
FAULT_MS = 40
"""When the fault happens: at the fifth step."""


def write_faulty(folder: Path) -> Path:
    """Its files; the path of the interface file."""
    (folder / "faulty.c").write_text(_SOURCE, encoding="utf-8")
    (folder / "faulty.h").write_text(_HEADER, encoding="utf-8")
    path = folder / "faulty.toml"
    path.write_text(_INTERFACE, encoding="utf-8")
    return path


_BUILT: dict[str, Build] = {}


def built(factory: pytest.TempPathFactory, kind: str = PLAIN) -> Build:
    """Return the build of the faulty controller, which all test files of a process share."""
    if kind not in _BUILT:
        _BUILT[kind] = build(write_faulty(factory.mktemp(f"faulty-{kind}")), kind)
    return _BUILT[kind]


def faulty_interface(folder: Path) -> Interface:
    """Its interface alone, for a worker that is none of C."""
    return load_interface(write_faulty(folder))


def fake(behaviour: str, interface: Interface) -> list[str | Path]:
    """The command of a worker that is a Python program: see ``fake_worker.py``."""
    program = Path(__file__).with_name("fake_worker.py")
    size = str(interface.outputs.size)
    return [sys.executable, "-S", program, behaviour, f"{interface.schema:x}", size, *sys.path]


@contextmanager
def nothing_left() -> Iterator[Path]:
    """A folder for temporary files that must be empty again at the end, and no child beside."""
    before = children()
    with tempfile.TemporaryDirectory(prefix="t-") as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", name)  # short: a socket's path has 107 characters
        yield Path(name)
        left = sorted(Path(name).rglob("*"))
        assert not left, f"left behind: {left}"
    assert children() <= before, "an orphan"


def children() -> set[int]:
    """Processes of this one, by number; zombies too."""
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {int(pid) for task in tasks for pid in task.read_text().split()}


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def loop(
    controller: SilController, fault: str = "none", latency: float = 0.0, **policies: Any
) -> Scenario:
    """Ten steps; at :data:`FAULT_MS` the controller is told to do ``fault``."""
    scenario = Scenario("faulty", until=0.1)
    scenario.source("set", Signals("fault [1]", "x [1] = 0.25"))
    scenario.at(FAULT_MS / 1000, "set.fault", float(FAULTS.index(fault)))
    inputs = {"fault": "set.fault", "x": "set.x"}
    compute = Fixed(latency)
    scenario.controller("c", controller, period=0.01, inputs=inputs, compute=compute, **policies)
    return scenario


def flown(
    scenario: Scenario, path: Path | None = None, pace: str = "max"
) -> tuple[Recording, RtsimError | None]:
    """A run, its recording (on disk or in memory), the error that ended it; its replay agrees."""
    error: RtsimError | None = None
    recorder = MemoryRecorder() if path is None else FileRecorder(path, overwrite=True)
    try:
        simulate(scenario, recorder=recorder, pace=pace)
    except RtsimError as problem:
        error = problem
    recording = Recording.open(path) if path else recorder.recording()  # type: ignore[union-attr]
    assert recording.truncated is None
    assert recording.footer is not None
    assert compare_exact(recording, rerun(recording, scenario)) is None
    return recording, error


def kinds(recording: Recording) -> list[str]:
    return [event.kind for event in recording.events]

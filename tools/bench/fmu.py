"""The F-16 as FMU at 200 Hz: a step of its plant, beside the native plant and FMPy's own step.

All contenders take the same steps of RK4 from NASA's case 11.  *In a run* is a run without a
recording, divided by its number of steps: all that rtsim does in a step.  *A call* is what the
interpreter does with the plant in each tag: ``propagate`` and ``commit``; in real time, the FMU
also keeps its state before each step.  FMPy's step sets the inputs, calls ``fmi3DoStep`` and gets
the outputs, as ``fmpy.simulate_fmu`` does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from rtsim.components.plant import RunningPlant
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NEVER
from rtsim.fmi import Fmu
from rtsim.fmi.exporting import export_fmu
from rtsim.fmi.object_code import this_system
from rtsim.models.f16.plant import F16
from rtsim.models.f16.scenario import case
from rtsim.runs import Simulation
from rtsim.scenario.scenario import Scenario
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns, median_ratio, spread

STEP_S = 0.005
AGAINST_NATIVE, AGAINST_FMPY = 1.5, 1.0


def _native() -> Scenario:
    found = case("11")
    out = Scenario("native", until=1e4)
    out.plant(
        "f16", F16, step=STEP_S, inputs=dict(found.inputs), parameters=dict(found.parameters),
states={s.name: found.state[F16.states.slice(s.name)] for s in F16.states},
    )  # fmt: skip
    return out


def _imported(path: Path, in_process: bool) -> Scenario:
    found, fmu = case("11"), Fmu(path, kind="co-simulation", in_process=in_process)
    out = Scenario("imported", until=1e4)
    known = {name: value for name, value in found.inputs.items() if name in fmu.interface.inputs}
    out.plant("f16", fmu, step=STEP_S, inputs=known)
    return out


def _running(run: Simulation, count: int) -> Callable[[], float]:
    """Part of a run: steps of the plant, without a recording."""

    def contender() -> float:
        began = stopwatch()
        run.advance(count * STEP_S)
        return (stopwatch() - began) / count

    return contender


def _stepping(plant: RunningPlant, count: int) -> Callable[[], float]:
    """Single steps of a plant, as the interpreter takes them."""

    def contender() -> float:
        began = stopwatch()
        for _ in range(count):
            plant.propagate(NEVER.ns)
            plant.commit()
        return (stopwatch() - began) / count

    return contender


def _fmpy(path: Path, count: int) -> Callable[[], float]:
    """Steps by FMPy's own methods."""
    from fmpy.fmi3 import FMU3Slave

    fmu = Fmu(path, kind="co-simulation", in_process=True)
    spec = fmu.interface.spec
    slave: Any = FMU3Slave(
        guid=spec["token"], modelIdentifier=spec["identifier"], unzipDirectory=spec["folder"]
    )
    slave.instantiate()
    slave.enterInitializationMode()
    slave.exitInitializationMode()
    inputs, outputs = ([row[0] for row in spec[name]] for name in ("inputs", "outputs"))
    values = [float(v) for v in fmu.interface.inputs.initial()]
    at = 0

    def run() -> float:
        nonlocal at
        began = stopwatch()
        for _ in range(count):
            slave.setFloat64(inputs, values)
            slave.doStep(at * STEP_S, STEP_S)
            slave.getFloat64(outputs)
            at += 1
        return (stopwatch() - began) / count

    return run


def run(quick: bool) -> Result:
    count, rounds = (200, 5) if quick else (2000, 25)
    title = f"a step of the F-16 at {1 / STEP_S:g} Hz, {rounds} rounds of {count} steps"
    with tempfile.TemporaryDirectory(prefix="rtsim-bench-") as folder:
        path = Path(folder, "f16.fmu")
        try:
            export_fmu(_native(), path, plant="f16", systems=[this_system()])
        except ScenarioError as error:
            return Result("fmu", title, skipped=str(error))
        with ExitStack() as stack:
            ns = in_turns(_contenders(path, count, stack), rounds)
    return Result("fmu", title, _rows(ns))


def _contenders(path: Path, count: int, stack: ExitStack) -> dict[str, Callable[[], float]]:
    found: dict[str, Callable[[], float]] = {}
    for name, make in (
        ("native", _native),
        ("FMU", partial(_imported, path, True)),
        ("process", partial(_imported, path, False)),
    ):
        run = stack.enter_context(Simulation(make(), record=False, engine="compiled"))
        found[name] = _running(run, count)
        system = make().build()
        stack.callback(system.close)
        found[f"{name} call"] = _stepping(system.plants[0], count)
    system = _imported(path, True).build()
    stack.callback(system.close)
    system.plants[0].begin_run(lambda: None, paced=True)
    found["kept call"] = _stepping(system.plants[0], count)
    found["FMPy"] = _fmpy(path, count)
    return found


def _rows(ns: Mapping[str, Sequence[float]]) -> tuple[Row, ...]:
    def against(name: str, other: str) -> dict[str, float | None]:
        return {**spread(ns[name]), "ratio [x]": median_ratio(ns[name], ns[other])}

    native, fmpy = (median_ratio(ns["FMU"], ns[name]) for name in ("native", "FMPy"))
    return (
        Row("in a run: the native plant", spread(ns["native"])),
        Row("in a run: the FMU in the process, against the native plant", against("FMU", "native"),
            f"<= {AGAINST_NATIVE:g} x", native <= AGAINST_NATIVE),
        Row("in a run: the FMU in the process, against FMPy's own step", {"ratio [x]": fmpy},
            f"<= {AGAINST_FMPY:g} x", fmpy <= AGAINST_FMPY),
        Row("FMPy's own step", spread(ns["FMPy"])),
        Row("in a run: the FMU in a process of its own, against FMPy's own step",
            against("process", "FMPy")),
        Row("a call: the native plant", spread(ns["native call"])),
        Row("a call: the FMU in the process, against the native plant",
            against("FMU call", "native call")),
        Row("a call in real time: the FMU in the process, against the native plant",
            against("kept call", "native call")),
        Row("a call: the FMU in a process of its own", spread(ns["process call"])),
    )  # fmt: skip

"""The F-16 as FMU at 200 Hz: a step of its plant, beside the native plant and FMPy's own step.

All contenders take the same steps of RK4 from NASA's case 11.  A step of a plant is what the loop
does in each tag: ``propagate`` and ``commit``.  FMPy's step sets the inputs, calls ``fmi3DoStep``
and gets the outputs, as ``fmpy.simulate_fmu`` does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
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


def _stepping(plant: RunningPlant, count: int) -> Callable[[], float]:
    def run() -> float:
        began = stopwatch()
        for _ in range(count):
            plant.propagate(NEVER.ns)
            plant.commit()
        return (stopwatch() - began) / count

    return run


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
        built = [_native().build(), _imported(path, True).build(), _imported(path, False).build()]
        native, inside, beside = (system.plants[0] for system in built)
        try:
            ns = in_turns(
                {
                    "native": _stepping(native, count),
                    "FMU": _stepping(inside, count),
                    "FMPy": _fmpy(path, count),
                    "process": _stepping(beside, count),
                },
                rounds,
            )
        finally:
            for system in built:
                system.close()
    ratios = {name: median_ratio(ns["FMU"], ns[name]) for name in ("native", "FMPy")}
    rows = (
        Row("the native plant", spread(ns["native"])),
        Row("the FMU in the process, against the native plant",
            {**spread(ns["FMU"]), "ratio [x]": ratios["native"]},
            f"<= {AGAINST_NATIVE:g} x", ratios["native"] <= AGAINST_NATIVE),
        Row("the FMU in the process, against FMPy's own step", {"ratio [x]": ratios["FMPy"]},
            f"<= {AGAINST_FMPY:g} x", ratios["FMPy"] <= AGAINST_FMPY),
        Row("FMPy's own step", spread(ns["FMPy"])),
        Row("the FMU in a process of its own", spread(ns["process"])),
    )  # fmt: skip
    return Result("fmu", title, rows)

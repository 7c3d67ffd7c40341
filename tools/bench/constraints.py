"""The cost of constraints: ``python -m tools.bench.constraints``.

Each line is one run with the CPU time of its steps alone, and the greatest relative error of its
end.  The published ends are those of the Test Set for IVP Solvers; the diode bridge is compared
with dp54 at a tolerance of 1e-12.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from rtsim import Model, Scenario
from rtsim.solve import CVODE, DP54, IDA, RADAU, RK4, RODAS5P
from tools.bench.constraint_problems import AKZO, AKZO_END, BRIDGE, ROBERTSON, ROBERTSON_END

REPEATS = 5


def run(model: Model, solver: Any, step: str, until: float) -> tuple[float, list[float]]:
    """Return the least CPU time (s) of the steps up to ``until`` s, and the end."""
    least, end = float("inf"), list[float]()
    for _ in range(REPEATS):
        scenario = Scenario(model.name, until=until)
        scenario.plant("plant", model, step=step, solver=solver)
        plant = scenario.build().plants[0]
        last_ns = int(until * 1e9)
        began = time.process_time()
        while plant.ns < last_ns:
            if plant.take_steps(last_ns) is None:
                plant.propagate(last_ns)
                plant.commit()
        least = min(least, time.process_time() - began)
        end = [*plant.x.tolist(), *plant.z.tolist()]
    return least, end


def main() -> None:
    fine = replace(DP54, rtol=1e-12, atol=1e-13)
    bridge_end = run(BRIDGE, fine, "0.0001", 0.02)[1]
    problems: list[tuple[str, Model, list[float], float, list[tuple[Any, str]]]] = [
        ("akzo, 1 tag", AKZO, AKZO_END, 180.0, [
            (RK4, "0.05"), (replace(DP54, rtol=1e-8, atol=1e-11), "180"), (RADAU, "180"),
            (replace(RODAS5P, rtol=1e-6, atol=1e-9), "180"),
            (replace(IDA, rtol=1e-8, atol=1e-11), "180"),
            (replace(CVODE, rtol=1e-8, atol=1e-11), "180"),
        ]),
        ("akzo, 180 tags", AKZO, AKZO_END, 180.0, [
            (replace(DP54, rtol=1e-8, atol=1e-11), "1"), (RADAU, "1"),
            (replace(IDA, rtol=1e-8, atol=1e-11), "1"),
            (replace(CVODE, rtol=1e-8, atol=1e-11), "1"),
        ]),
        ("robertson, 1 tag", ROBERTSON, ROBERTSON_END, 1e9, [
            (replace(RODAS5P, rtol=1e-7, atol=1e-18), "1e9"),
            (replace(RADAU, rtol=1e-8, atol=1e-18), "1e9"),
            (replace(IDA, rtol=1e-9, atol=1e-16), "1e9"),
            (replace(CVODE, rtol=1e-9, atol=1e-18), "1e9"),
        ]),
        ("bridge, 200 tags", BRIDGE, bridge_end, 0.02, [
            (RK4, "0.00001"), (DP54, "0.0001"), (RODAS5P, "0.0001"), (RADAU, "0.0001"),
            (IDA, "0.0001"), (CVODE, "0.0001"),
        ]),
    ]  # fmt: skip
    for what, model, wanted, until, solvers in problems:
        for solver, step in solvers:
            cpu, end = run(model, solver, step, until)
            off = np.abs(np.array(end) / np.array(wanted) - 1.0).max()
            print(f"{what:17} {solver.name:34} step {step:8} {1e3 * cpu:9.2f} ms   {off:.1e}")


if __name__ == "__main__":
    main()

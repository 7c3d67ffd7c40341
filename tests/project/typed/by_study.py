"""A plant of blocks, the margins of its loop, a study of it, and a controller in C."""

from pathlib import Path

import hitl
import rtsim as rt
from rtsim.blocks import Diagram, Gain, Integrator, Step, Sum
from rtsim.linear import margins, open_loop
from rtsim.models.unstable import scenario as unstable
from rtsim.runs import rerun
from rtsim.studies import LatinHypercube, MaxAbs, Study, start, summarise
from rtsim.testing import trace_of


def scenario(gain: float = 2.0) -> rt.Scenario:
    loop = Diagram("loop")
    loop.add("wanted", Step(0.1, after=1.0))
    loop.add("error", Sum("+-"), "wanted", "x")
    loop.add("gain", Gain(gain), "error")
    loop.add("x", Integrator(), "gain")
    out = rt.Scenario("loop", until=1)
    out.plant("loop", loop.model(), step=0.01)
    return out


def study() -> Study:
    return Study(
        factors={"gain": (1.0, 3.0)},
        design=LatinHypercube(runs=4),
        results={"peak": MaxAbs("loop.x")},
        requirements=["peak < 2"],
    )


def passed(folder: Path) -> bool:
    found = start("scenario.py", folder, study())
    rows: int = found.table().num_rows
    return rows == 4 and bool(summarise(found)["outcome"])


def same_in_c(path: Path) -> bool:
    try:
        with hitl.sil("motor.toml", gain=0.1) as controller:
            voltage: float = controller.step(setpoint=10.0, speed=0.0).voltage
    except rt.RtsimError as error:
        print(error)
        return False
    return voltage > 0.0 and bool(hitl.back_to_back("scenario.py", {"controller": path}))


recording = trace_of(scenario())
assert float(recording["loop.x"][-1]) < 1.0
assert margins(open_loop(unstable(), "controller.force").system, feedback=+1).delay > 0.0
print(recording.digest, rerun)

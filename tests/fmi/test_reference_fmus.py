"""The Reference FMUs of the FMI project give their published results.

``RTSIM_REFERENCE_FMUS`` is a checkout of https://github.com/modelica/Reference-FMUs, which these
tests compile.  Without the variable, the tests are skipped.  Not compared: Clocks (no published
result) and Roberts (its published result is that of BouncingBall).
"""

from __future__ import annotations

import csv
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fmu_parts import HERE2, HERE3, LINUX, folder, packed

import rtsim as rt
from rtsim.fmi import Fmu

SOURCES = Path(os.environ.get("RTSIM_REFERENCE_FMUS", "none"))
pytestmark = [
    pytest.mark.long,
    pytest.mark.system("gcc"),
    pytest.mark.skipif(not LINUX, reason="the tests compile FMUs for Linux"),
    pytest.mark.skipif(
        not (SOURCES / "BouncingBall").is_dir(),
        reason="RTSIM_REFERENCE_FMUS is no checkout of modelica/Reference-FMUs",
    ),
]
CS, ME = "co-simulation", "model-exchange"
ENDS = {"Stair": 9.0}
"""Times (s) at which a model ends its simulation."""


@cache
def built(model: str, fmi: int) -> Path:
    """Return the FMU of a model, compiled from the checkout."""
    library = folder() / f"{model}{fmi}.so"
    at = SOURCES / model
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O2", f"-DFMI_VERSION={fmi}", "-DDISABLE_PREFIX",
         "-I", SOURCES / "include", "-I", at, at / "model.c",
         SOURCES / "src" / f"fmi{fmi}Functions.c", SOURCES / "src" / "cosimulation.c",
         "-o", library, "-lm"],
        check=True,
    )  # fmt: skip
    files: dict[str, str | bytes] = {
        "modelDescription.xml": (at / f"FMI{fmi}.xml").read_bytes(),
        f"binaries/{HERE2 if fmi == 2 else HERE3}/{model}.so": library.read_bytes(),
    }
    for one in at.glob("*.txt"):
        files[f"resources/{one.name}"] = one.read_bytes()
    return packed(f"{model}{fmi}.fmu", files)


def published(model: str) -> tuple[np.ndarray[Any, Any], dict[str, np.ndarray[Any, Any]]]:
    """Return the times (s) and the numeric columns of the published result."""
    with (SOURCES / model / f"{model}_out.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    columns: dict[str, np.ndarray[Any, Any]] = {}
    words = {"true": "1", "false": "0"}
    for name, column in zip(head, zip(*rows, strict=True), strict=True):
        if not name.startswith(("String", "Binary")):
            cells = [[float(words.get(x, x)) for x in cell.split()] for cell in column]
            columns[name] = np.array(cells).squeeze()
    return columns.pop("time"), columns


def compared(model: str, fmi: int, kind: str, **options: Any) -> dict[str, float]:
    """Return the greatest difference of each published column, relative to its greatest value."""
    fmu = Fmu(built(model, fmi), kind=kind)
    experiment = fmu.description.xml.defaultExperiment
    until = float(experiment.stopTime)
    step = float(experiment.stepSize or 0.1)
    loop = rt.Scenario("reference", until=until)
    loop.plant("m", fmu, **{"step": step, **options})
    run = rt.simulate(loop)
    ends = ENDS.get(model, until)
    assert run.ended.seconds == ends
    assert run.reason == ("plant ended" if ends < until else "end")
    time, columns = published(model)
    rows = np.array([int(np.argmin(abs(run.time - t))) for t in time])
    assert abs(run.time[rows] - time).max() < 1e-9
    out = {}
    for name, theirs in columns.items():
        if name not in fmu.description.by_name:  # FMI 2.0 has fewer types
            continue
        ours = run[f"m.{fmu.description.by_name[name].signal.name}"][rows]
        assert ours.shape == theirs.shape
        scale = float(np.abs(theirs).max()) or 1.0
        out[name] = float(np.abs(ours - theirs).max()) / scale
    assert out
    return out


MODELS = ("BouncingBall", "Dahlquist", "Feedthrough", "Resource", "Stair", "VanDerPol")


@pytest.mark.parametrize(
    ("model", "fmi"), [*((m, fmi) for m in MODELS for fmi in (2, 3)), ("StateSpace", 3)]
)
def test_co_simulation_gives_the_published_result(model: str, fmi: int) -> None:
    found = compared(model, fmi, CS)
    assert max(found.values()) < 1e-12


@pytest.mark.parametrize("fmi", [2, 3])
@pytest.mark.parametrize(
    ("model", "step"),
    [("Dahlquist", 0.1), ("VanDerPol", 0.01), ("Stair", 0.2), ("Feedthrough", 0.1)],
)
def test_model_exchange_with_their_solver_gives_the_published_result(
    model: str, step: float, fmi: int
) -> None:
    found = compared(model, fmi, ME, step=step, solver="euler")
    assert max(found.values()) < 1e-12

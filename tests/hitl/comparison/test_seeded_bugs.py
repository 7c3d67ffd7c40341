"""Ten classic errors of translation, each planted in the real C, found and named.

The inputs are quiet, and what wakes the error comes at one step: signal and step of the first
failure are known beforehand.  The untouched C passes the same inputs.

An uninitialised variable is promised to be found in the sanitize build alone, which fills it with
a pattern.  In the others it is what stack and optimiser leave there, which may be right.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from c_parts import with_gcc
from numpy.typing import NDArray

from hitl.building.build import PLAIN, SANITIZE, build
from hitl.comparison.open_loop import OpenLoop, open_loop
from hitl.controllers.sil import SilController
from rtsim.components.controller import PythonController
from rtsim.models.f16.controller import LAW_INPUTS, LAW_PARAMETERS
from rtsim.models.f16.scenario import autopilot, case
from rtsim.models.pid import Pid, pid_controller

CORE = Path(__file__).resolve().parents[3] / "firmware" / "core"
STEPS, WAKES = 20, 7
TRIM = case("13.1").law_parameters
Rows = NDArray[np.float64]
Inputs = Callable[[], Rows]


def trim(name: str) -> float:
    return float(TRIM.get(name, LAW_PARAMETERS[name].initial))  # type: ignore[arg-type]


def level(**changes: float | Rows) -> Rows:
    """Level flight on course in trim under the autopilot; ``changes`` are inputs by name."""
    values: dict[str, float | Rows] = {
        "autopilot_on": 1.0,
        "airspeed_command": trim("airspeed_trim"),
        "equivalent_airspeed_kt": trim("airspeed_trim"),
        "altitude_command": 10_000.0,
        "altitude_ft": 10_000.0,
        "alpha_deg": trim("alpha_trim"),
        "pitch_deg": trim("theta_trim"),
        "base_course": 2.0,
        "yaw_deg": 2.0,
        **changes,
    }
    return np.stack(
        [np.full(STEPS, 0.0) + values.get(name, 0.0) for name in LAW_INPUTS.names], axis=1
    )


def from_(step: int, value: float, before: float = 0.0) -> Rows:
    return np.where(np.arange(STEPS) >= step, value, before)


def slowing() -> Rows:
    """0.1 kt more too slow at each step."""
    lag = 0.1 * np.arange(STEPS, dtype=np.float64)
    return level(equivalent_airspeed_kt=np.array(trim("airspeed_trim") - lag, np.float64))


def full_throttle() -> int:
    """The first step at which the power of ``slowing`` meets its limit."""
    power = trim("throttle_trim") + trim("throttle_airspeed") * 0.1 * np.arange(STEPS)
    return int(np.flatnonzero(power > 1.0)[0])


def setpoint_step() -> Rows:
    inputs = Pid.signals("input")
    rows = np.zeros((STEPS, inputs.size))
    rows[:, inputs.names.index("setpoint")] = from_(WAKES, 0.02)
    return rows


@dataclass(frozen=True)
class Bug:
    """``old`` becomes ``new`` in ``source``; ``signals`` then differ, first at ``step``."""

    old: str
    new: str
    inputs: Inputs
    signals: tuple[str, ...]
    step: int = WAKES
    source: str = "f16_control"
    kind: str = PLAIN


BUGS = {
    "sign": Bug(
        "in->pitch_rate + k->stick_pitch * pitch_error",
        "in->pitch_rate - k->stick_pitch * pitch_error",
        lambda: level(pitch_deg=from_(WAKES, trim("theta_trim") + 0.02, trim("theta_trim"))),
        ("elevator",),
    ),
    "gain": Bug(
        "AILERON_PER_STICK R(-21.5)",
        "AILERON_PER_STICK R(-25.1)",
        lambda: level(roll_rate=from_(WAKES, 0.01)),
        ("aileron", "rudder"),
    ),
    "wrapped angle": Bug(  # through north
        "if (error < R(-180.0))",
        "if (error < R(-540.0))",
        lambda: level(yaw_deg=from_(WAKES, 1.99, 2.0), base_course=from_(WAKES, 361.99, 2.0)),
        ("aileron", "rudder"),
    ),
    "degrees for radians": Bug(
        "k->throttle_pitch_rate * in->pitch_rate",
        "k->throttle_pitch_rate * R(57.29577951308232) * in->pitch_rate",
        lambda: level(pitch_rate=from_(WAKES, 0.001)),
        ("power",),
    ),
    "saturation forgotten": Bug(
        "rtsim_limited(k->throttle_trim + throttle, R(0.0), R(1.0))",
        "(k->throttle_trim + throttle)",
        slowing,
        ("power",),
        full_throttle(),
    ),
    "integer division": Bug(
        "RUDDER_PER_AILERON R(0.008)",
        "RUDDER_PER_AILERON (8 / 1000)",
        lambda: level(roll_rate=from_(WAKES, 0.01)),
        ("rudder",),
    ),
    "wrong index": Bug(  # of roll, pitch and yaw rate
        "k->lateral_yaw_rate * in->yaw_rate",
        "k->lateral_yaw_rate * (&in->roll_rate)[1]",
        lambda: level(pitch_rate=from_(WAKES, 0.001)),
        ("aileron", "rudder"),
    ),
    "stale static": Bug(  # what it kept shows one step after it was first something
        "rtsim_real lat_stick = in->lat_stick, pedal = in->pedal;",
        "static rtsim_real lat_stick, pedal;",
        lambda: level(autopilot_on=0.0, sas_on=1.0, roll_deg=from_(WAKES, 0.02)),
        ("aileron", "rudder"),
        WAKES + 1,
    ),
    "uninitialised variable": Bug(
        "references held = {k->airspeed_trim, k->theta_trim, R(0.0)};",
        "references held;",
        lambda: level(autopilot_on=from_(WAKES, 0.0, 1.0), sas_on=1.0),
        ("elevator", "aileron", "rudder", "power"),
        kind=SANITIZE,
    ),
    "off-by-one step": Bug(
        "s->command = command;\n    out->command = command;",
        "out->command = s->command;\n    s->command = command;",
        setpoint_step,
        ("command",),
        source="pid",
    ),
}


@pytest.fixture(scope="module")
def designs() -> Mapping[str, PythonController]:
    """Return each controller without a bug, built once."""
    return {"f16_control": autopilot(case("13.1")), "pid": pid_controller()}


@pytest.fixture(scope="module")
def untouched() -> Mapping[str, SilController]:
    return {name: SilController(CORE / f"{name}.toml") for name in ("f16_control", "pid")}


def held(design: PythonController, translation: SilController, inputs: Rows) -> OpenLoop:
    running = translation.fresh()
    try:
        return open_loop(design.fresh(), running, inputs)
    finally:
        running.close()


def planted(bug: Bug, folder: Path) -> Path:
    """The interface of a copy of the real source with ``bug`` in it."""
    shutil.copytree(CORE, folder)
    source = folder / f"{bug.source}.c"
    text = source.read_text(encoding="utf-8")
    assert text.count(bug.old) == 1, f"{bug.old!r} is in {source.name} {text.count(bug.old)} times"
    source.write_text(text.replace(bug.old, bug.new), encoding="utf-8")
    return source.with_suffix(".toml")


def test_there_are_ten() -> None:
    assert len(BUGS) == 10


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[with_gcc] if b.kind == SANITIZE else []) for n, b in BUGS.items()],
)
def test_a_translation_bug_is_found_and_named(
    name: str,
    designs: Mapping[str, PythonController],
    untouched: Mapping[str, SilController],
    tmp_path: Path,
) -> None:
    bug = BUGS[name]
    design, inputs = designs[bug.source], bug.inputs()
    values = design.values
    good = untouched[bug.source]
    good.values = dict(values)
    assert held(design, good, inputs).first is None, "the untouched C agrees"
    assert held(design, good, inputs).ok

    bad = SilController(build(planted(bug, tmp_path / "core"), bug.kind), values)
    found = held(design, bad, inputs)
    assert not found.ok
    assert found.error == ""
    assert found.first == (bug.signals[0], bug.step)
    assert [s.name for s in found.failures] == list(bug.signals)
    assert {s.step for s in found.failures} == {bug.step}
    assert f"{bad.name}.{bug.signals[0]}" in found.in_words
    assert f"step {bug.step}" in found.in_words

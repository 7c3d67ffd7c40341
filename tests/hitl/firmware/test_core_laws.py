"""The stateful controllers of firmware/core against their designs; what all C there keeps to."""

from __future__ import annotations

import ctypes
import platform
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import c_parts
import numpy as np
import pytest
from c_parts import with_gcc
from numpy.typing import NDArray

from hitl.building.build import build
from hitl.interface import load_interface
from rtsim.components.controller import PythonController
from rtsim.core.tag import Tag
from rtsim.models.f16.scenario import autopilot, case
from rtsim.models.pid import pid_controller
from rtsim.models.unstable import controller as unstable_controller

CORE = Path(__file__).resolve().parents[3] / "firmware" / "core"
SOURCES = sorted(CORE.glob("*.c"))
TYPES = ("double", "float")
WARNINGS = (
    "-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Wdouble-promotion", "-Wconversion", "-Werror",
)  # fmt: skip
Rows = NDArray[np.float64]
Law = Callable[..., Rows]
DESIGNS: dict[str, Callable[[], PythonController]] = {
    "f16_control": lambda: autopilot(case("13.1")),
    "pid": pid_controller,
    "unstable_control": unstable_controller,
}
PID_VALUES: dict[str, object] = {
    "proportional": 2.3,
    "integral": 3.1,
    "derivative": 0.07,
    "setpoint_weight": 0.6,
    "filter_time": 0.033,
    "tracking_time": 0.21,
    "lowest": -0.9,
    "highest": 1.3,
    "rate_limit": 7.0,
    "period": 0.011,
}


def run_c(file: str | Path, rows: Rows, values: dict[str, object] | None = None) -> Rows:
    """Outputs (n, k) of the controller of an interface file, from its start, for inputs (n, m)."""
    built = build(CORE / file if isinstance(file, str) else file)
    library = ctypes.CDLL(str(built.library))
    library.rtsim_step.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.rtsim_initialize.argtypes = [ctypes.c_void_p]
    parameters = built.interface.parameters.initial(values or {})
    assert library.rtsim_initialize(parameters.ctypes.data) == 0
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    out = np.zeros((len(rows), built.interface.outputs.size))
    for row, answer in zip(rows, out, strict=True):
        assert library.rtsim_step(row.ctypes.data, answer.ctypes.data) == 0
    return out


def run_design(design: PythonController, rows: Rows) -> Rows:
    """The same of a design."""
    out, fresh = np.zeros((len(rows), design.outputs.size)), design.fresh()
    for step, row in enumerate(rows):
        fresh.send(Tag(step), row)
        answer = fresh.receive(Tag(step), 0.0)
        assert answer is not None
        out[step] = answer
    return out


def pid_design(rows: Rows, **values: object) -> Rows:
    return run_design(pid_controller(values), rows)


def pid_c(rows: Rows, **values: object) -> Rows:
    return run_c("pid.toml", rows, values)


both = pytest.mark.parametrize("pid", [pid_design, pid_c], ids=["design", "C"])


def held(setpoint: float, measurement: float, steps: int) -> Rows:
    return np.tile([setpoint, measurement], (steps, 1)).astype(float)


def wandering(seed: int, steps: int, columns: int) -> Rows:
    """Inputs that jump now and then, so that limits are reached and left."""
    random = np.random.Generator(np.random.PCG64(seed))
    levels = random.normal(0.0, 1.0, (steps, columns)) * (random.random((steps, 1)) < 0.02)
    return 0.5 * np.cumsum(levels, axis=0) % 3.0 - 1.5 + 0.01 * random.normal(size=levels.shape)


# -- translation against design --------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(DESIGNS))
def test_interface_files_declare_what_the_designs_do(name: str) -> None:
    design = DESIGNS[name]()
    interface = load_interface(CORE / f"{name}.toml")
    assert list(interface.inputs) == list(design.inputs)
    assert list(interface.outputs) == list(design.outputs)
    assert list(interface.parameters) == list(design.parameters)
    single = load_interface(f"{CORE / name}.toml:single")
    assert {f.signal.type for f in single.fields} == {"float32"}
    assert single.parameters.names == design.parameters.names


@pytest.mark.parametrize("name", sorted(DESIGNS))
def test_c_initialises_with_the_parameters_of_the_design(name: str, tmp_path: Path) -> None:
    names = DESIGNS[name]().parameters.names
    rows = "\n".join(f'{n} = {{ c = "controller.parameters.{n}" }}' for n in names)
    file = tmp_path / "defaults.toml"
    file.write_text(
        f'name = "defaults"\nperiod = 1\nsources = ["{CORE / name}.c"]\n'
        f'headers = ["{name}.h"]\ninclude = ["{CORE}"]\n'
        f'[code]\nobjects = ["{name} controller"]\ninitialize = "{name}_initialize(&controller)"\n'
        f'step = "(void)0"\n[outputs]\n{rows}\n'
    )
    found = run_c(file, np.zeros((1, 0)))
    assert found[0].tolist() == DESIGNS[name]().parameters.initial().tolist()


@pytest.mark.parametrize("values", [{}, PID_VALUES], ids=["defaults", "others"])
@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_pid_is_its_design_bit_for_bit(values: dict[str, object], compiled: bool) -> None:
    rows = wandering(1, 5_000, 2)
    expected = run_design(pid_controller(values, compile=compiled), rows)
    assert 0.1 < np.mean(np.abs(np.diff(expected[:, 0])) > 0) < 1.0, "limits reached and left"
    np.testing.assert_array_equal(run_c("pid.toml", rows, values), expected)


@pytest.mark.parametrize("values", [{}, {"proportional": 1.1, "derivative": 0.7, "integral": 0.3}])
def test_unstable_controller_is_its_design_bit_for_bit(values: dict[str, object]) -> None:
    rows = wandering(2, 5_000, 2)
    design = unstable_controller()
    design.values = values
    expected = run_design(design, rows)
    np.testing.assert_array_equal(run_c("unstable_control.toml", rows, values), expected)


@pytest.mark.parametrize("name", ["pid", "unstable_control"])
def test_float_build_is_the_design_in_float_arithmetic(name: str) -> None:
    """numpy rounds each operation on float32 to float32, as the float build does."""
    rows, design = wandering(3, 5_000, 2).astype(np.float32), DESIGNS[name]()
    s, p, y = (v.astype(np.float32) for v in (design.s, design.p, np.zeros(1)))
    expected = np.zeros((len(rows), 1))
    for row, answer in zip(rows, expected, strict=True):
        design.law(0.0, row, s, p, y)
        answer[:] = y
    np.testing.assert_array_equal(run_c(f"{name}.toml:single", rows.astype(float)), expected)


@pytest.mark.parametrize("name", ["pid", "unstable_control"])
def test_initialising_again_forgets_everything(name: str) -> None:
    rows = wandering(4, 200, 2)
    first = run_c(f"{name}.toml", rows)
    np.testing.assert_array_equal(run_c(f"{name}.toml", rows), first)


@pytest.mark.parametrize("name", ["pid", "unstable_control"])
def test_two_instances_are_independent(name: str, tmp_path: Path) -> None:
    interface, two = load_interface(CORE / f"{name}.toml"), tmp_path / "two.toml"
    output = interface.outputs.names[0]
    calls = [
        [f"{name}_{what}(&{c}{more.format(c)})" for c in "ab"]
        for what, more in (("initialize", ""), ("step", ", &in_{0}, &out_{0}"))
    ]
    objects = [f"{name} a, b", f"{name}_inputs in_a, in_b", f"{name}_outputs out_a, out_b"]
    inputs = [f'{n}_{c} = {{ c = "in_{c}.{n}" }}' for c in "ab" for n in interface.inputs.names]
    outputs = [f'{output}_{c} = {{ c = "out_{c}.{output}" }}' for c in "ab"]
    two.write_text(
        f'name = "two"\nperiod = 1\nsources = ["{CORE / name}.c"]\nheaders = ["{name}.h"]\n'
        f'include = ["{CORE}"]\n[code]\nobjects = {objects}\ninitialize = {calls[0]}\n'
        f"step = {calls[1]}\n" + "\n".join(["[inputs]", *inputs, "[outputs]", *outputs])
    )
    a, b = wandering(5, 500, 2), wandering(6, 500, 2)
    found = run_c(two, np.hstack([a, b]))
    np.testing.assert_array_equal(found[:, :1], run_c(f"{name}.toml", a))
    np.testing.assert_array_equal(found[:, 1:], run_c(f"{name}.toml", b))


# -- what a PID promises ---------------------------------------------------------------------------


@both
def test_pid_parts(pid: Law) -> None:
    """Proportional, integral and filtered derivative, each alone, against its formula."""
    free = {"lowest": -1e9, "highest": 1e9, "rate_limit": 1e12, "proportional": 0.0}
    none = {"integral": 0.0, "derivative": 0.0}
    p = pid(held(2.0, 0.5, 3), **{**free, **none, "proportional": 3.0, "setpoint_weight": 0.5})
    np.testing.assert_allclose(p[:, 0], 3.0 * (0.5 * 2.0 - 0.5))
    i = pid(held(2.0, 0.5, 5), **{**free, **none, "integral": 4.0})
    np.testing.assert_allclose(i[:, 0], 4.0 * 0.01 * 1.5 * np.arange(5), atol=1e-12)
    kick = np.vstack([held(0.0, 0.0, 1), held(0.0, 1.0, 20)])
    d = pid(kick, **{**free, "integral": 0.0, "derivative": 0.3, "filter_time": 0.04})
    np.testing.assert_allclose(d[1:, 0], -0.3 / 0.05 * 0.8 ** np.arange(20), rtol=1e-12)


@both
def test_pid_starts_and_follows_the_setpoint_without_a_derivative_kick(pid: Law) -> None:
    values = {"proportional": 0.0, "integral": 0.0, "derivative": 1.0}
    rows = np.vstack([held(0.0, 7.0, 3), held(5.0, 7.0, 3)])
    assert not pid(rows, **values).any()


@both
def test_pid_starts_within_limits_that_leave_zero_out(pid: Law) -> None:
    assert pid(held(0.0, 0.0, 1), lowest=0.4, highest=0.9)[0, 0] == 0.4


@both
def test_pid_keeps_limits_and_rate(pid: Law) -> None:
    command = pid(wandering(7, 5_000, 2), **PID_VALUES)[:, 0]
    assert command.min() == -0.9
    assert command.max() == 1.3
    change = np.abs(np.diff(command, prepend=0.0))
    assert change.max() == pytest.approx(7.0 * 0.011, rel=1e-12)


@both
@pytest.mark.parametrize("limit", ["lowest, highest", "rate_limit"])
def test_pid_does_not_wind_up(pid: Law, limit: str) -> None:
    """After 30 s against a limit it comes back within four tracking times (0.5 s each)."""
    rows = np.vstack([held(10.0, 0.0, 3_000), held(-0.5, 0.0, 1_000)])
    values: dict[str, object] = {"derivative": 0.0, "rate_limit": 1e6, "proportional": 0.1}
    if limit == "rate_limit":
        values.update(lowest=-1e9, highest=1e9, rate_limit=0.01)
    falls = np.diff(pid(rows, **values)[3_000:, 0]) < 0.0
    assert 0 < int(np.argmax(falls)) < 200
    wound = np.diff(pid(rows, **values, tracking_time=1e9)[3_000:, 0]) < 0.0
    assert not wound.any(), "without back-calculation it does not come back at all"


@both
def test_pid_unwinds_with_the_tracking_time(pid: Law) -> None:
    """At a limit the excess tends to error * integral * tracking time, and decays from there."""
    period, tracking, integral, highest = 0.01, 0.5, 2.0, 0.25
    values = {"proportional": 0.0, "derivative": 0.0, "integral": integral, "rate_limit": 1e6}
    rows = np.vstack([held(1.0, 0.0, 3_000), held(-1.0, 0.0, 500)])
    command = pid(rows, **values, tracking_time=tracking, highest=highest)[3_000:, 0]
    excess, steps = 1.0 * integral * tracking, 0
    while excess > 0.0:
        excess += -integral * period - period / tracking * excess
        steps += 1
    assert steps > 20
    assert command[:steps].tolist() == [highest] * steps
    assert command[steps] == pytest.approx(highest + excess, abs=1e-9)


@both
def test_pid_with_a_tracking_time_below_the_period_does_not_overshoot(pid: Law) -> None:
    rows = np.vstack([held(s, 0.0, 200) for s in (0.3, 10.0, -1.0)])
    values = {"proportional": 0.0, "derivative": 0.0}
    expected = pid(rows, **values, tracking_time=0.01)
    assert expected[200:400].max() == 1.0
    assert expected[-1, 0] < 0.0
    for tracking in (0.0, 0.001):
        np.testing.assert_array_equal(pid(rows, **values, tracking_time=tracking), expected)


# -- what all C in firmware/core keeps to ----------------------------------------------------------


def compile_object(source: Path, real: str, into: Path, *flags: str) -> Path:
    out = into / f"{source.stem}-{real}.o"
    how = ["-std=c99", "-O2", f"-DRTSIM_REAL={real}", *flags]
    c_parts.compiled(*how, *([] if "-S" in flags else ["-c"]), source, "-o", out, folder=into)
    return out


def _assembly(source: Path, real: str, into: Path) -> str:
    """clang's comments hold bytes of the data as they are."""
    return compile_object(source, real, into, "-S").read_text(encoding="latin-1")


@pytest.mark.parametrize("real", TYPES)
@pytest.mark.parametrize("source", SOURCES, ids=lambda p: p.stem)
def test_c99_without_a_warning(source: Path, real: str, tmp_path: Path) -> None:
    compile_object(source, real, tmp_path, *WARNINGS)


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: p.stem)
def test_float_build_has_no_double_arithmetic(source: Path, tmp_path: Path) -> None:
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("looks for instructions of x86-64")
    double = re.compile(r"\bv?(?:cvt\w*[sp]d\w*|(?:add|sub|mul|div|u?comi|min|max)[sp]d)\b")
    code = {real: _assembly(source, real, tmp_path) for real in TYPES}
    assert double.search(code["double"]), "the pattern finds what there is"
    assert double.findall(code["float"]) == []


@with_gcc
@pytest.mark.parametrize("source", SOURCES, ids=lambda p: p.stem)
def test_no_heap_no_clock_no_static_data(source: Path, tmp_path: Path) -> None:
    """Nothing from outside (so no malloc and no time), and nothing that keeps a value."""
    made = compile_object(source, "double", tmp_path)
    done = subprocess.run(["nm", "-P", made], capture_output=True, text=True, check=True)
    kinds = {name: kind for name, kind, *_ in map(str.split, done.stdout.splitlines())}
    assert all(kind in "Ttr" for kind in kinds.values()), kinds
    own = {name for name, kind in kinds.items() if kind == "T"}
    assert own == {f"{source.stem}_{call}" for call in ("initialize", "step", "terminate")}

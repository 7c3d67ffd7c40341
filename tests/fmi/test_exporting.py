"""Exported FMUs, simulated by FMPy, give the trajectories of rtsim."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported_models import LOOPS, PLANTS, Crasher, Lander, Room, alone
from numpy.typing import NDArray

import rtsim as rt
from rtsim.blocks import Diagram, Gain, TransportDelay
from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.fmi import export_c, export_fmu
from rtsim.fmi.description import Description, Kind, Variable, base_unit
from rtsim.fmi.exporting import plain_header
from rtsim.fmi.frozen import frozen
from rtsim.fmi.object_code import TARGETS, this_system, universal
from rtsim.models.ball import scenario as ball
from rtsim.models.f16.scenario import scenario as f16
from rtsim.models.valves import scenario as valves
from rtsim.scenario.standard_components import PlantComponent
from rtsim.solve import Adaptive

fmpy = pytest.importorskip("fmpy")

HERE = this_system()
needs_library = pytest.mark.skipif(HERE not in TARGETS, reason="no library for this system")
SLOW = [pytest.param(name, marks=pytest.mark.long) for name in [*PLANTS, *LOOPS] if name != "ball"]
ALL = ["ball", *SLOW]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Path]:
    """Return a function that exports a system once for each version of FMI."""
    folder = tmp_path_factory.mktemp("fmus")

    @cache
    def export(name: str, version: str) -> Path:
        make, plant = PLANTS[name] if name in PLANTS else (LOOPS[name], "")
        path = folder / f"{name}-{version}.fmu"
        export_fmu(make(), path, plant=plant, version=version, systems=[HERE])
        return path

    return export


def recorded(name: str) -> rt.RunResult:
    make = PLANTS[name][0] if name in PLANTS else LOOPS[name]
    return rt.simulate(make())


def accurate(name: str) -> rt.RunResult:
    """Return a run whose solver error is far below that of the fixed step."""
    make, plant = PLANTS[name]
    made = make()
    made.of(PlantComponent)[plant].solver = Adaptive(rtol=1e-13, atol=1e-14)
    return rt.simulate(made)


def signal(run: rt.RunResult, name: str, plant: str) -> NDArray[np.float64]:
    """Return the signal of a run for the name of a variable, such as ``angle[1]``."""
    base, _, element = name.partition("[")
    values = run[f"{plant}.{base}" if plant else base]
    return values[:, int(element[:-1]) - 1] if element else values


def outputs(path: Path) -> list[str]:
    found = fmpy.read_model_description(str(path)).modelVariables
    return [v.name for v in found if v.causality == "output"]


@needs_library
@pytest.mark.parametrize("version", ["2.0", pytest.param("3.0", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ALL)
def test_co_simulation_gives_the_bits_of_rtsim(
    name: str, version: str, exported: Callable[[str, str], Path]
) -> None:
    from fmpy.validation import validate_fmu

    path = exported(name, version)
    assert validate_fmu(str(path)) == []
    about = fmpy.read_model_description(str(path))
    step, end = about.defaultExperiment.stepSize, about.defaultExperiment.stopTime
    names = outputs(path)
    found = fmpy.simulate_fmu(
        str(path), fmi_type="CoSimulation", stop_time=end, step_size=float(step),
        output_interval=float(step), output=names,
    )  # fmt: skip
    run = recorded(name)
    at = np.round(found["time"] * 1e9).astype(np.int64)
    rows = np.searchsorted(run.time_ns, at)
    assert len(at) == round(float(end) / float(step)) + 1
    assert (run.time_ns[rows] == at).all()
    plant = PLANTS[name][1] if name in PLANTS else ""
    different = [one for one in names if (found[one] != signal(run, one, plant)[rows]).any()]
    assert names
    assert different == []


ENDS = {"ball": 2.5, "rubber": 2.5, "lorenz": 2.0, "adaptive": 2.0}
"""End (s) of a Model Exchange: before the flights of a ball are shorter than the resolution of the
importer's solver, and before the differences of a chaotic model grow."""


@needs_library
@pytest.mark.parametrize("version", ["2.0", pytest.param("3.0", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["ball", *SLOW[: len(PLANTS) - 1]])
def test_model_exchange_gives_the_trajectory_within_tolerance(
    name: str, version: str, exported: Callable[[str, str], Path]
) -> None:
    path, run, plant = exported(name, version), accurate(name), PLANTS[name][1]
    about = fmpy.read_model_description(str(path))
    end = ENDS.get(name, float(about.defaultExperiment.stopTime))
    names = outputs(path)
    found = fmpy.simulate_fmu(
        str(path), fmi_type="ModelExchange", stop_time=end, relative_tolerance=1e-12,
        output_interval=float(about.defaultExperiment.stepSize), output=names,
    )  # fmt: skip
    at = np.round(found["time"] * 1e9).astype(np.int64)
    last = np.append(at[1:] != at[:-1], True) & np.isin(at, run.time_ns)
    for event in run.events:  # at the instant of an event, both sides of it are correct
        last &= abs(at - event.tag.ns) > 1000
    rows = np.searchsorted(run.time_ns, at[last])
    assert last.sum() > 0.8 * end / float(about.defaultExperiment.stepSize)
    for one in names:
        expected = signal(run, one, plant)[rows]
        scale = max(1.0, float(np.abs(expected).max()))
        assert np.abs(found[one][last] - expected).max() < 1e-8 * scale, one


def test_events_of_a_model_exchange_are_within_1_ns(
    exported: Callable[[str, str], Path],
) -> None:
    """The impacts of a ball are known: see the docstring of :mod:`rtsim.models.ball`."""
    found = fmpy.simulate_fmu(
        str(exported("ball", "2.0")), fmi_type="ModelExchange", stop_time=2.3,
        output_interval=0.01, relative_tolerance=1e-13, output=["height", "speed"],
    )  # fmt: skip
    impacts = found["time"][:-1][(found["speed"][:-1] < 0) & (found["speed"][1:] > 0)]
    first = (2 / 9.81) ** 0.5
    flights = [2 * first * 0.7**n for n in range(1, 7)]
    expected = first + np.cumsum([0, *flights])
    assert len(impacts) == 6
    assert np.abs(impacts - expected[: len(impacts)]).max() < 1e-9


@needs_library
@pytest.mark.long
@pytest.mark.parametrize(("name", "count"), [("thermostat", 6), ("modes", 11)])
def test_events_of_a_model_exchange_are_those_of_an_accurate_run(
    name: str, count: int, exported: Callable[[str, str], Path]
) -> None:
    path, run = exported(name, "2.0"), accurate(name)
    about = fmpy.read_model_description(str(path)).defaultExperiment
    found = fmpy.simulate_fmu(
        str(path), fmi_type="ModelExchange", stop_time=float(about.stopTime),
        relative_tolerance=1e-13, output_interval=float(about.stepSize), output=outputs(path),
    )  # fmt: skip
    time = found["time"]
    theirs = np.unique(time[1:][np.diff(time) == 0])
    ours = np.unique([event.tag.ns for event in run.events if event.tag.ns]) / 1e9
    assert len(ours) == count
    # A guard of rtsim fires at the first whole ns after its crossing.
    assert max(float(np.abs(theirs - one).min()) for one in ours) <= 1.001e-9


# The description


def test_the_description_has_units_roles_ranges_and_dependencies(tmp_path: Path) -> None:
    made = export_fmu(alone(Room(), 20, 0.05), tmp_path / "room.fmu", plant="plant", systems=[HERE])
    found = {one.name: one for one in made.variables}
    assert list(found) == [
        "time", "temperature", "heater", "outside", "warmth", "power", "der(temperature)",
        "guard.cold", "guard.warm",
    ]  # fmt: skip
    power, outside, warmth = found["power"], found["outside"], found["warmth"]
    assert (power.causality, power.unit, power.start) == ("parameter", "K/s", 1.0)
    assert power.description == "of the heater"
    assert (outside.causality, outside.start) == ("input", -0.5)
    named = [made.variables[i].name for i in warmth.dependencies or ()]
    assert named == ["temperature", "outside"]
    assert found["temperature"].start == 18.0
    assert base_unit(power.unit) == {"K": "1", "s": "-1"}
    assert base_unit("kt") == {"m": "1", "s": "-1", "factor": repr(1852.0 / 3600.0)}
    assert base_unit("bananas") is None


@pytest.mark.long
def test_equal_models_give_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        export_fmu(ball(), tmp_path / f"{name}.fmu", plant="ball", systems=[HERE])
    assert (tmp_path / "a.fmu").read_bytes() == (tmp_path / "b.fmu").read_bytes()


# Inputs, parameters and states


@needs_library
def test_start_values_act_like_values_of_a_run(exported: Callable[[str, str], Path]) -> None:
    path = exported("ball", "2.0")
    found = fmpy.simulate_fmu(
        str(path), fmi_type="CoSimulation", stop_time=1.0, step_size=0.01, output_interval=0.01,
        start_values={"gravity": 1.62, "height": 0.5}, output=["height"],
    )  # fmt: skip
    made = ball(until=1)
    made.set("ball.gravity", 1.62)
    made.set("ball.height", 0.5)
    assert found["height"][-1] == rt.simulate(made).final("ball.height")


@needs_library
@pytest.mark.long
def test_an_input_acts_like_a_scheduled_change(
    exported: Callable[[str, str], Path], tmp_path: Path
) -> None:
    from fmpy.fmi2 import FMU2Slave

    path = exported("thermostat", "2.0")
    about = fmpy.read_model_description(str(path))
    known = {v.name: v.valueReference for v in about.modelVariables}
    slave = FMU2Slave(
        guid=about.guid, unzipDirectory=fmpy.extract(str(path), str(tmp_path)),
        modelIdentifier="plant", instanceName="one",
    )  # fmt: skip
    slave.instantiate()
    slave.setupExperiment()
    slave.enterInitializationMode()
    slave.exitInitializationMode()
    found: list[float] = []
    for i in range(400):
        if i == 101:
            slave.setReal([known["outside"]], [-1.25])
            assert slave.getReal([known["warmth"]])[0] == found[-1] - 0.5 * 0.75  # at once
        slave.doStep(i * 0.05, 0.05)
        found += slave.getReal([known["warmth"]])
    slave.terminate()
    slave.freeInstance()
    made = rt.Scenario("driven", until=20)
    made.source("weather", rt.Signals("outside [K/s]"), {"outside": -0.5})
    room = made.plant("plant", Room(), step=0.05)
    made.connect("weather.outside", room.outside)
    made.at(101 * 0.05, "weather.outside", -1.25)
    run = rt.simulate(made)
    rows = np.searchsorted(run.time_ns, np.arange(1, 401) * 50_000_000)
    expected = run["plant.warmth"][rows]
    expected[100] += 0.5 * 0.75  # the FMU gave this value before the input was set
    assert np.abs(found - expected).max() < 1e-15
    assert (np.delete(found, 100) == np.delete(expected, 100)).all()


@needs_library
@pytest.mark.long
@pytest.mark.parametrize("version", ["2.0", "3.0"])
@pytest.mark.parametrize("kind", ["CoSimulation", "ModelExchange"])
@pytest.mark.parametrize("lander", [Lander, Crasher])
def test_a_terminal_guard_ends_the_simulation(
    version: str, kind: str, lander: type[rt.Plant], tmp_path: Path
) -> None:
    path = tmp_path / "lander.fmu"
    made = alone(lander(), 5)
    export_fmu(made, path, plant="plant", version=version, systems=[HERE])
    found = fmpy.simulate_fmu(
        str(path), fmi_type=kind, stop_time=5, step_size=0.01, output_interval=0.01,
        output=["height"],
    )  # fmt: skip
    assert 3.33 < found["time"][-1] < 3.35
    assert abs(found["height"][-1]) < 1e-9


@needs_library
def test_a_saved_state_continues_with_the_same_bits(
    exported: Callable[[str, str], Path], tmp_path: Path
) -> None:
    from fmpy.fmi2 import FMU2Slave

    path = exported("ball", "2.0")
    about = fmpy.read_model_description(str(path))
    height = [v.valueReference for v in about.modelVariables if v.name == "height"]
    slave = FMU2Slave(
        guid=about.guid, unzipDirectory=fmpy.extract(str(path), str(tmp_path)),
        modelIdentifier="ball", instanceName="one",
    )  # fmt: skip
    slave.instantiate()
    slave.setupExperiment()
    slave.enterInitializationMode()
    slave.exitInitializationMode()
    for i in range(60):
        slave.doStep(i * 0.01, 0.01)
    saved = slave.getFMUState()
    data = slave.serializeFMUState(saved)

    def onwards() -> list[float]:
        found = []
        for i in range(60, 120):
            slave.doStep(i * 0.01, 0.01)
            found += slave.getReal(height)
        return found

    with pytest.raises(fmpy.fmi1.FMICallException):
        slave.deserializeFMUState(b"?" + data[1:])  # of another model
    first = onwards()
    slave.setFMUState(saved)
    assert onwards() == first
    slave.reset()
    slave.setupExperiment()
    slave.enterInitializationMode()
    slave.exitInitializationMode()
    slave.setFMUState(slave.deserializeFMUState(data))
    assert onwards() == first
    assert len(set(first)) == 60
    slave.terminate()
    slave.freeInstance()


# C programs

PROGRAM = r"""
#include <stdio.h>
#include "ball.h"

int main(void) {
  struct instance *model = ball_new();
  if (!model) return 1;
  for (int i = 1; i <= 300; i++) {
    if (ball_run(model, i / 100.0) != 0) return 2;
    printf("%a\n", ball_get(model, ball_ball_height));
  }
  if (ball_run(model, 0.0 / 0.0) != -1 || ball_run(model, 1e11) != -1) return 3;
  ball_free(model);
  return 0;
}
"""


@needs_library
@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="links a library for Linux")
def test_a_c_program_needs_no_python(tmp_path: Path) -> None:
    export_c(ball(), tmp_path)
    (tmp_path / "main.c").write_text(PROGRAM)
    command = [sys.executable, "-m", "ziglang", "cc", "main.c", "ball.so", "-Wl,-rpath,$ORIGIN"]
    subprocess.run([*command, "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run(
        [str(tmp_path / "main")], env={}, capture_output=True, text=True, check=True
    )
    run = rt.simulate(ball(until=3))
    rows = np.searchsorted(run.time_ns, np.arange(1, 301) * 10_000_000)
    assert [float.fromhex(one) for one in done.stdout.split()] == run.ball.height[rows].tolist()


def test_a_signal_called_time_leaves_the_name_to_the_signal() -> None:
    class Clock(rt.Plant):
        time = rt.state("s")

        def derivative(self, d: Any) -> None:
            d.time = 2.0

    made = frozen(alone(Clock(), 1), "plant")
    assert [one.name for one in made.variables] == ["time_2", "time", "der(time)"]


def test_names_in_the_header_are_different() -> None:
    names = ("time", "reset", "a[1]", "a_1", "run", "loop.a", "set")
    kinds = [Kind.TIME, *[Kind.INPUT] * 6]
    variables = [
        Variable(name, kind, "input", "continuous") for name, kind in zip(names, kinds, strict=True)
    ]
    text = plain_header(Description("m", "m", "", variables, True, 0.1, 1.0))
    values = re.findall(r"^  (\w+) = (\d+),", text, re.M)
    assert [int(value) for _, value in values] == list(range(7))
    functions = re.findall(r"(\w+)\(", text.partition("struct instance;")[2])
    listed = [name for name, _ in values] + functions
    assert len(set(listed)) == len(listed) == 13
    assert ("m_reset_2", "1") in values


# Libraries for other systems


@pytest.mark.long
def test_libraries_for_other_systems_have_their_headers_and_symbols(tmp_path: Path) -> None:
    lief = pytest.importorskip("lief")
    for version, folders in (
        ("3.0", set(TARGETS)),
        ("2.0", {t.fmi2 for t in TARGETS.values()}),
    ):
        path = tmp_path / f"ball-{version}.fmu"
        export_fmu(ball(), path, plant="ball", version=version)
        archive = zipfile.ZipFile(path)
        binaries = {n.split("/")[1]: n for n in archive.namelist() if n.startswith("binaries/")}
        assert set(binaries) == folders
        for folder, name in binaries.items():
            for one in _parsed(lief, Path(archive.extract(name, tmp_path / version))):
                _check_library(one, folder, version)


def _parsed(lief: Any, file: Path) -> Iterator[Any]:
    """Yield the parts of a library: one, or two of a universal binary of macOS."""
    if file.suffix == ".dylib":
        whole = lief.MachO.parse(str(file))  # its parts are valid only as long as this object
        yield from whole
    else:
        yield lief.parse(str(file))


OF_THE_SYSTEM = {
    "linux": {"libc.so.6", "libm.so.6"},
    "windows": {"kernel32.dll", "api-ms-win-crt-"},
    "darwin": {"/usr/lib/libSystem.B.dylib", "@rpath/ball.dylib"},
}


def _check_library(one: Any, folder: str, version: str) -> None:
    kind = type(one).__module__.rpartition(".")[2]
    system = {"ELF": "linux", "PE": "windows", "MachO": "darwin"}[kind]
    names = {str(f.name).removeprefix("_") for f in one.exported_functions}
    wanted = "fmi2DoStep" if version == "2.0" else "fmi3DoStep"
    assert wanted in names, folder
    prefix = wanted[:4]
    others = {n for n in names if not n.startswith(prefix)}
    assert others <= {"_mh_dylib_header", "__dso_handle"}, folder
    if one.__class__.__module__.endswith("MachO") and "arm64" in str(one.header.cpu_type).lower():
        assert one.has_code_signature  # macOS loads no unsigned code on ARM64
    allowed = OF_THE_SYSTEM[system]
    found = {str(getattr(n, "name", n)).lower() for n in one.libraries}
    assert all(any(n.startswith(a.lower()) for a in allowed) for n in found), (folder, found)


def test_a_universal_binary_contains_both_parts() -> None:
    parts = [b"\xcf\xfa\xed\xfe" + bytes([n]) * 40 for n in (7, 12)]
    whole = universal(parts)
    assert whole[:8] == b"\xca\xfe\xba\xbe\0\0\0\2"
    for i, part in enumerate(parts):
        at, size = (int.from_bytes(whole[16 + 20 * i + k :][:4], "big") for k in (0, 4))
        assert at % 2**14 == 0
        assert whole[at : at + size] == part


@pytest.mark.long
@pytest.mark.system("wine")
def test_the_library_for_windows_runs_under_wine(tmp_path: Path) -> None:
    export_c(ball(), tmp_path, systems=["x86_64-windows"])
    (tmp_path / "main.c").write_text(PROGRAM)
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu"]
    subprocess.run([*zig, "main.c", "ball.dll", "-o", "main.exe"], cwd=tmp_path, check=True)
    wine = shutil.which("wine") or "/usr/lib/wine/wine64"
    environment = {**os.environ, "WINEPREFIX": str(tmp_path / "prefix"), "WINEDEBUG": "-all"}
    done = subprocess.run(
        [wine, "main.exe"], cwd=tmp_path, env=environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    run = rt.simulate(ball(until=3))
    rows = np.searchsorted(run.time_ns, np.arange(1, 301) * 10_000_000)
    found = [float.fromhex(one) for one in done.stdout.split()]
    assert np.abs(np.array(found) - run.ball.height[rows]).max() < 1e-12


# What cannot be exported


def noisy() -> rt.Scenario:
    return f16("13.1", until=1, turbulence=1e-3)


def delayed() -> rt.Scenario:
    diagram = Diagram("late")
    diagram.add("delay", TransportDelay(0.1), "gain")
    diagram.add("gain", Gain(-1.0), "delay")
    diagram.output("gain")
    return alone(diagram.model(), 1)


class Allocates(rt.Plant):
    x = rt.state(shape=(3,))

    def derivative(self, d: Any) -> None:
        for i, value in enumerate(np.linspace(0.0, 1.0, int(3 + self.x[0]))):
            d.x[i] = value


def with_scipy() -> rt.Scenario:
    return alone(Room(), 1, solver="lsoda")


@pytest.mark.parametrize(
    ("make", "plant", "said"),
    [
        (valves, "", "valve21 is not compiled"),
        (with_scipy, "plant", "the solver or the model of plant is not compiled"),
        (delayed, "plant", "the model of plant has delays"),
        pytest.param(noisy, "", "draws random numbers", marks=pytest.mark.long),
    ],
)
def test_what_cannot_be_frozen_is_named_with_its_remedy(
    make: Callable[[], rt.Scenario], plant: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError, match=said) as caught:
        export_fmu(make(), tmp_path / "x.fmu", plant=plant, systems=[HERE])
    assert "cannot be exported" in str(caught.value)
    remedies = ("compile=True", "a fixed latency", "rk4", "samples")
    assert any(remedy in str(caught.value) for remedy in remedies)
    assert not (tmp_path / "x.fmu").exists()


@pytest.mark.long
def test_code_with_numbas_runtime_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"Allocates.derivative \(.*test_exporting.py:\d+\)"):
        export_fmu(alone(Allocates(), 1), tmp_path / "x.fmu", plant="plant", systems=[HERE])
    made = alone(Room(), 1, solver="rodas5p")
    with pytest.raises(ScenarioError, match=r"rosenbrock_step cannot be exported.*rk4"):
        export_fmu(made, tmp_path / "x.fmu", plant="plant", systems=[HERE])


def test_unknown_names_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="bal"):
        export_fmu(ball(), tmp_path / "x.fmu", plant="bal", systems=[HERE])
    with pytest.raises(ScenarioError, match=r"FMI 1\.0 is not known"):
        export_fmu(ball(), tmp_path / "x.fmu", plant="ball", version="1.0")
    with pytest.raises(UnknownName, match="beos"):
        export_fmu(ball(), tmp_path / "x.fmu", plant="ball", systems=["x86_64-beos"])

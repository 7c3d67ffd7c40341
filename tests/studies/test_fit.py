"""Fits of parameters: coverage of the intervals, undetermined values, and measurements."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from fit_parts import Late, Mass, Pair, decay, falling, mass, motor, noisy, sensor
from scipy.stats import binom

import rtsim as rt
from rtsim.cli.fit import fit as command
from rtsim.core.errors import ModelError, RecordingError, ScenarioError, UnknownName
from rtsim.studies.fitting import fit
from rtsim.studies.measurements import Measurements

MASS = (mass, {"mass.stiffness": 2.5, "mass.damping": 0.6},
        {"mass.position": 0.02, "mass.speed": 0.2})  # fmt: skip
MOTOR = (motor, {"motor.gain": 4.2, "motor.lag": 0.4}, {"motor.speed": 0.3})
FALLING = (falling, {"falling.drag": 0.35, "falling.height": 2.1}, {"falling.height": 0.01})
Case = tuple[Callable[[], rt.Scenario], dict[str, float], dict[str, float]]
HERE = str(Path(__file__).with_name("fit_parts.py"))


def written(folder: Path, columns: dict[str, Any], time: Any) -> Path:
    """Write a CSV file; NaN gives an empty cell."""
    path = folder / "bench.csv"
    rows = zip(time, *columns.values(), strict=True)
    cells = (",".join("" if np.isnan(v) else repr(float(v)) for v in row) for row in rows)
    path.write_text("\n".join([",".join(["time", *columns]), *cells, ""]))
    return path


def hits(case: Case, tries: int) -> dict[str, int]:
    """Return, for each parameter, how many intervals contain the truth."""
    make, truth, noise = case
    clean = noisy(make(), truth, dict.fromkeys(noise, 0.0), 0)
    out = dict.fromkeys(truth, 0)
    for k in range(tries):
        random = np.random.default_rng(k)
        signals = {
            n: clean.signals[n] + s * random.standard_normal(clean.time.size)
            for n, s in noise.items()
        }
        found = fit(make(), Measurements("try", clean.time, signals), list(truth))
        assert found.converged
        for name, true in truth.items():
            out[name] += found[name].low <= true <= found[name].high
    return out


@pytest.mark.parametrize("tries", [10, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "case",
    [
        MOTOR,
        pytest.param(MASS, marks=pytest.mark.long),
        pytest.param(FALLING, marks=pytest.mark.long),
    ],
)
def test_the_intervals_contain_the_truth_as_often_as_they_say(case: Case, tries: int) -> None:
    least, most = (float(binom.ppf(q, tries, 0.95)) for q in (1e-4, 1 - 1e-4))
    for name, count in hits(case, tries).items():
        assert least <= count <= most, (name, count)


def test_noise_of_each_signal_is_estimated_and_weights_its_residuals() -> None:
    found = fit(mass(), noisy(mass(), MASS[1], MASS[2], 4), list(MASS[1]))
    assert found.noise["mass.position"] == pytest.approx(0.02, rel=0.2)
    assert found.noise["mass.speed"] == pytest.approx(0.2, rel=0.2)
    assert not found.warnings
    alone = fit(mass(), noisy(mass(), MASS[1], MASS[2], 4), list(MASS[1]), signals=["mass.speed"])
    assert found["mass.damping"].error < alone["mass.damping"].error


def test_an_undetermined_pair_is_named_and_has_no_interval() -> None:
    data = noisy(mass(), {}, {"mass.position": 0.02}, 1)
    found = fit(mass(), data, ["mass.stiffness", "mass.mass"], settings={"mass.damping": 0.0})
    assert found.status == 1
    assert "only a combination of mass.stiffness and mass.mass" in found.warnings[0]
    assert not found["mass.mass"].determined
    assert found["mass.mass"].low == -np.inf
    assert found["mass.stiffness"].value / found["mass.mass"].value == pytest.approx(2.5, rel=0.02)


def test_a_value_without_effect_is_named_beside_a_determined_one() -> None:
    data = noisy(falling(), {}, {"falling.height": 0.01}, 3)
    found = fit(falling(), data, ["falling.drag", "falling.first"])
    assert found["falling.drag"].determined
    assert "falling.first has no effect" in found.warnings[0]
    assert found["falling.drag"].low < 0.2 < found["falling.drag"].high


def test_a_wrong_model_and_a_bound_are_reported() -> None:
    data = noisy(motor(), {"motor.gain": 4.2, "motor.lag": 0.4}, {"motor.speed": 0.05}, 1)
    found = fit(motor(), data, {"motor.gain": "range:3,3.4"})
    assert (found.status, found.result) == (0, "at a bound")
    assert found["motor.gain"].at_bound
    assert np.isnan([found["motor.gain"].low, found["motor.gain"].error]).all()
    said = "; ".join(found.warnings)
    assert "motor.gain is at the bound 3.4 of its range" in said
    assert "the residuals of motor.speed are not independent" in said


def test_the_search_turns_back_where_the_model_has_no_solution() -> None:
    found = fit(decay(), noisy(decay(), {"decay.rate": 0.04}, {"decay.x": 0.01}, 1), ["decay.rate"])
    assert abs(found["decay.rate"].value - 0.04) < 4 * found["decay.rate"].error
    with pytest.raises(ModelError, match=r"(?s)nan.*in the run with decay.rate = -1"):
        fit(decay(), noisy(decay(), {}, {"decay.x": 0.1}, 1), {"decay.rate": "range:-2,0"})


def test_a_value_that_the_data_hardly_determine_is_named() -> None:
    data = noisy(motor(), {"motor.lag": 0.4}, {"motor.speed": 5000.0}, 1)
    found = fit(motor(), data, ["motor.lag"])
    assert found.status == 1
    assert "the data hardly determine motor.lag" in found.warnings[0]


def test_measurements_that_begin_late_are_named_beside_an_undetermined_value() -> None:
    data = noisy(motor(), {"motor.lag": 0.4}, {"motor.speed": 0.5}, 1)
    late = replace(data, time=data.time + 100.0)
    found = fit(motor(), late, ["motor.lag"])
    assert any("begin at 100 s" in text and "subtract 100" in text for text in found.warnings)
    early = fit(motor(), data, ["motor.lag"])
    assert not any("begin at" in text for text in early.warnings)


def test_a_start_far_from_the_value_does_not_make_the_value_undetermined() -> None:
    made = sensor()
    made.set("sensor.offset", 1e-3)
    found = fit(made, noisy(sensor(), {}, {"sensor.y": 1.0}, 1), ["sensor.offset"])
    assert (found.result, found.warnings) == ("determined", ())
    assert found["sensor.offset"].low < 1.0 < found["sensor.offset"].high


def test_a_parameter_with_a_small_effect_has_an_interval() -> None:
    noise = 1e-9
    data = noisy(sensor(), {"sensor.offset": 1.2, "sensor.drift": 1.5}, {"sensor.y": noise}, 1)
    found = fit(sensor(), data, ["sensor.offset", "sensor.drift"])
    n, t = data.time.size, data.time
    exact = noise / 1e-7 / np.sqrt(n * np.var(t))  # of a straight line
    assert found["sensor.drift"].error == pytest.approx(exact, rel=0.2)


def test_a_signal_without_a_value_at_a_measured_time_is_named() -> None:
    made = sensor()
    made.controller("reader", Late(), offset=0.1, inputs={"y": "sensor.y"})
    data = noisy(made, {}, {"sensor.y": 0.1}, 1)
    data = Measurements("data", data.time, {"reader.y": data.signals["sensor.y"]})
    with pytest.raises(ModelError, match=r"reader\.y is not finite at 0 s .* sensor\.offset = 1"):
        fit(made, data, ["sensor.offset"], signals=["reader.y"])


def test_arrays_are_compared_by_element(tmp_path: Path) -> None:
    def pair() -> rt.Scenario:
        out = rt.Scenario("pair", until=1)
        out.plant(Pair(), step=0.05)
        return out

    made = pair()
    made.set("pair.rate", 0.8)
    run = rt.simulate(made)
    assert set(fit(pair(), run.recording(), ["pair.rate"]).noise) == {"pair.x_0", "pair.x_1"}
    path = written(tmp_path, {"pair.x_1 [m]": run["pair.x"][:, 1]}, run.time)
    assert fit(pair(), path, ["pair.rate"])["pair.rate"].value == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("unit", "said"),
    [("rpm", "in rpm in .* but in rad/s"), ("m/s", "in m/s"), ("-", ""), ("rad/s", "")],
)
def test_units_of_columns_are_those_of_the_signals(tmp_path: Path, unit: str, said: str) -> None:
    data = noisy(motor(), MOTOR[1], MOTOR[2], 1)
    path = written(tmp_path, {f"motor.speed [{unit}]": data.signals["motor.speed"]}, data.time)
    if not said:
        assert fit(motor(), path, ["motor.gain"]).parameters
        return
    with pytest.raises(ScenarioError, match=said):
        fit(motor(), path, ["motor.gain"])


def test_units_of_inputs_and_of_recordings_are_compared_too(tmp_path: Path) -> None:
    data = noisy(motor(), MOTOR[1], MOTOR[2], 1)
    columns = {"motor.speed": data.signals["motor.speed"], "drive.voltage [mV]": data.time}
    with pytest.raises(ScenarioError, match=r"drive\.voltage is in mV .* but in V"):
        fit(
            motor(), written(tmp_path, columns, data.time), ["motor.gain"], inputs=["drive.voltage"]
        )
    other = rt.Scenario("other", until=1)
    other.source("motor", rt.Signals("speed [rpm] = 1"))
    other.plant(Mass(), step=0.1)
    with pytest.raises(ScenarioError, match=r"motor\.speed is in rpm"):
        fit(motor(), rt.simulate(other).recording(), ["motor.gain"])


def test_missing_values_of_an_input_are_left_out(tmp_path: Path) -> None:
    data = noisy(motor(), MOTOR[1], {"motor.speed": 0.1}, 2)
    volts = np.select([data.time < 0.5, data.time < 1.2], [1.0, -2.0], 3.0)
    volts[[10, 11, 80]] = np.nan
    columns = {"motor.speed": data.signals["motor.speed"], "drive.voltage": volts}
    path = written(tmp_path, columns, data.time)
    found = fit(motor(), path, list(MOTOR[1]), inputs=["drive.voltage"])
    assert found["motor.gain"].value == pytest.approx(4.2, rel=0.02)
    columns["drive.voltage"] = np.full(volts.size, np.nan)
    with pytest.raises(ScenarioError, match=r"no value of the input drive\.voltage"):
        fit(
            motor(), written(tmp_path, columns, data.time), ["motor.gain"], inputs=["drive.voltage"]
        )


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_columns_with_other_names_and_units_are_converted(tmp_path: Path, delimiter: str) -> None:
    data = noisy(motor(), MOTOR[1], MOTOR[2], 1)
    rpm, path = data.signals["motor.speed"] * 30 / math.pi + 100, tmp_path / "rig.csv"
    rows = [
        f"{1000 * t!r}{delimiter}{v!r}"
        for t, v in zip(data.time.tolist(), rpm.tolist(), strict=True)
    ]
    path.write_text("\n".join([f"t (ms){delimiter}n [rpm]", *rows]))
    factor = math.pi / 30
    speed = f"n,scale={factor!r},offset={-100 * factor!r}"
    columns = {"time": "t (ms),scale=0.001", "motor.speed": speed}
    found = fit(motor(), path, list(MOTOR[1]), columns=columns)
    same = fit(motor(), data, list(MOTOR[1]))
    assert found["motor.gain"].value == pytest.approx(same["motor.gain"].value, rel=1e-6)
    arguments = [f"{HERE}:motor", "--to", str(path), "--vary", "motor.gain", "--json"]
    texts = [x for name, text in columns.items() for x in ("--column", f"{name}={text}")]
    said = CliRunner().invoke(command, [*arguments, *texts])
    assert json.loads(said.output)["result"] == "determined", said.output


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({}, r"needs one column with the times.* --column time=TITLE"),
        ({"time": "t"}, r"the times are in ms; .* --column time=t,scale=0\.001"),
        ({"time": "t,scale=0.001"}, r"contains no signal of a plant.*--column motor\.\w+=TITLE"),
        ({"time": "t,scale=0.001", "motor.speed": "n"}, r"rpm .*--column motor\.speed=TITLE,scale"),
        ({"motor.speed": "m,scale=0.1"}, "unknown column 'm'"),
        ({"motor.speed": "n,skale=0.1"}, "'n,skale=0.1' names no column; write TITLE"),
        ({"motor.speed": "n,scale=0"}, "a scale other than 0"),
        ({"motor.speed": "n", "motor.other": "n"}, "the column n twice"),
    ],
)
def test_a_wrong_column_names_its_remedy(
    tmp_path: Path, columns: dict[str, str], said: str
) -> None:
    path = tmp_path / "rig.csv"
    path.write_text("t [ms],n [rpm]\n0,1\n10,2\n20,2\n" if columns else "x,n\n0,1\n1,2\n")
    with pytest.raises((RecordingError, ScenarioError), match=said):
        fit(motor(), path, ["motor.gain"], columns=columns)


def test_a_recording_has_no_columns_with_other_names() -> None:
    data = noisy(motor(), MOTOR[1], MOTOR[2], 1)
    with pytest.raises(ScenarioError, match="omit columns="):
        fit(motor(), data, ["motor.gain"], columns={"motor.speed": "n"})


def test_columns_that_are_not_used_are_named(tmp_path: Path) -> None:
    data = noisy(motor(), MOTOR[1], MOTOR[2], 1)
    speed = data.signals["motor.speed"]
    path = written(tmp_path, {"motor.speed": speed, "motor.sped": speed}, data.time)
    assert fit(motor(), path, ["motor.gain"]).unused == ("motor.sped",)
    arguments = [f"{HERE}:motor", "--to", str(path), "--vary", "motor.gain"]
    assert "not used: motor.sped" in CliRunner().invoke(command, arguments).output


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("range:-2,-1", "is outside of the declared bounds, 0.001 to inf"),
        ("range:2,1", "is empty or not finite"),
        ("0.5", "needs a range: motor.lag=range:LOW,HIGH"),
    ],
)
def test_wrong_ranges_are_errors(given: str, said: str) -> None:
    data = noisy(motor(), MOTOR[1], MOTOR[2], 1)
    with pytest.raises(ScenarioError, match=said):
        fit(motor(), data, {"motor.lag": given})


def test_an_end_before_the_last_measurement_is_an_error() -> None:
    data = noisy(motor(), MOTOR[1], MOTOR[2], 1)
    with pytest.raises(ScenarioError, match="until 1 s is before the last measurement at 2 s"):
        fit(motor(), data, ["motor.gain"], until=1)


def test_strict_makes_a_warning_an_exit_status(tmp_path: Path) -> None:
    data = noisy(motor(), MOTOR[1], MOTOR[2], 7)
    path = written(tmp_path, {"motor.speed": data.signals["motor.speed"]}, data.time)
    arguments = [f"{HERE}:motor", "--to", str(path), "--vary", "motor.gain=range:1,3",
                 "--until", "2", "--json"]  # fmt: skip
    plain = CliRunner().invoke(command, arguments)
    assert (plain.exit_code, json.loads(plain.output)["result"]) == (0, "at a bound")
    strict = CliRunner().invoke(command, [*arguments, "--strict"])
    assert strict.exit_code == 1
    found = json.loads(strict.output)
    assert found["outcome"] == "failed"
    assert "motor.gain is at the bound 3" in found["why"]
    assert found["parameters"][0]["low"] is None


def test_measured_inputs_drive_the_sources(tmp_path: Path) -> None:
    driven = motor()
    driven.at(0.8, "drive.voltage", 1.5)
    data = noisy(driven, MOTOR[1], {"motor.speed": 0.1}, 2)
    volts = np.select([data.time < 0.5, data.time < 0.8, data.time < 1.2], [1, -2, 1.5], 3.0)
    path = tmp_path / "bench.csv"
    rows = zip(data.time, data.signals["motor.speed"], volts, strict=True)
    text = "time [s],motor.speed [rad/s],drive.voltage [V]\n"
    path.write_text(text + "".join(f"{float(t)!r},{s},{v}\n" for t, s, v in rows))
    found = fit(motor(), path, list(MOTOR[1]), inputs=["drive.voltage"])
    assert found["motor.gain"].low < 4.2 < found["motor.gain"].high
    assert found["motor.lag"].low < 0.4 < found["motor.lag"].high


def test_arguments_of_the_scenario_can_vary() -> None:
    def late(start: float = 2.0) -> rt.Scenario:
        out = falling()
        out.set("falling.height", start)
        return out

    data = noisy(late(2.3), {}, {"falling.height": 0.01}, 5)
    found = fit(late, data, {"start": (1.0, 3.0)})
    assert abs(found["start"].value - 2.3) < 4 * found["start"].error < 0.01
    with pytest.raises(ScenarioError, match=r"without a component is an argument.*range:LOW,HIGH$"):
        fit(late, data, ["start"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time,motor.speed\n0,1\n1\n", "line 3 has 1 values; the header has 2"),
        ("time,motor.speed\n0,1\n1,x\n", "line 3: 'x' is not a number"),
        ("time,motor.speed\n\n0,1\n1,x\n", "line 4: 'x' is not a number"),
        ("time,motor.speed\n0,1\n1,inf\n", "line 3: 'inf' is not finite"),
        ("time,motor.speed,motor.speed\n0,1,1\n", "two columns with the name motor.speed"),
        ("time,motor.speed\n1,1\n0,2\n", "in ascending order"),
        ("when,motor.speed\n1,1\n", "needs one column with the times"),
        ("time [ms],motor.speed\n1,1\n2,2\n", "in ms; .* --column time=time,scale=0.001"),
        ("time,motor.speed\n", "has no rows"),
        ("time,other\n0,1\n1,1\n", r"contains no signal of a plant.*motor\.speed"),
        ("time,motor.speed\n0,\n1,nan\n", r"contains no value of motor\.speed"),
        ("time|motor.speed [rad/s]|x [m]\n0|1|1\n", "separate the titles by commas"),
        ("time,motor.speed [rpm]\n0,1\n1,1\n", r"motor\.speed is in rpm in .*, but in rad/s"),
        ("time,motor.speed\n0,1\n1,1\n", "2 values of motor.speed, too few for 2"),
    ],
)
def test_wrong_measurements_are_errors_with_their_place(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "bench.csv"
    path.write_text(text)
    with pytest.raises((RecordingError, ScenarioError), match=said):
        fit(motor(), path, ["motor.gain", "motor.lag"])


def test_wrong_names_are_errors() -> None:
    data = noisy(motor(), {}, {"motor.speed": 0.1}, 1)
    with pytest.raises(UnknownName, match=r"gian.*gain"):
        fit(motor(), data, ["motor.gian"])
    with pytest.raises(ScenarioError, match=r"or write --vary motor\.gain$"):
        fit(motor(), data, ["gain"])
    with pytest.raises(UnknownName, match=r"motor\.current"):
        fit(motor(), data, ["motor.gain"], signals=["motor.current"])


def test_the_command_prints_intervals_and_writes_a_page(tmp_path: Path) -> None:
    data = noisy(motor(), MOTOR[1], MOTOR[2], 7)
    path, page = tmp_path / "bench.csv", tmp_path / "fit.html"
    rows = zip(data.time, data.signals["motor.speed"], strict=True)
    path.write_text("time,motor.speed\n" + "".join(f"{float(t)!r},{v}\n" for t, v in rows))
    arguments = [f"{HERE}:motor", "--to", str(path), "--vary", "motor.gain",
                 "--vary", "motor.lag=range:0.1,1", "-o", str(page), "--json"]  # fmt: skip
    said = CliRunner().invoke(command, arguments)
    assert said.exit_code == 0, said.output
    found = json.loads(said.output)
    gain = found["parameters"][0]
    assert gain["low"] < 4.2 < gain["high"]
    assert "residual" in page.read_text()
    said = CliRunner().invoke(command, [*arguments[:-1]])
    assert said.exit_code == 2
    assert "exists" in said.output

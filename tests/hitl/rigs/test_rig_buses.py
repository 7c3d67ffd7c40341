"""Bus devices and faults of buses in rig files: what is read, refused, flown, and repeated."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from emulated_board_parts import need

from hitl.bus_devices.device import BusFault
from hitl.cli.hitl import hitl
from hitl.interface import InterfaceError
from hitl.rigs.controller import RigController
from hitl.rigs.file import load_rig
from hitl.rigs.rig import Rig, RigBusFault
from rtsim.cli import main
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.tag import Period, Tag

EXAMPLE = Path(__file__).parents[3] / "hitl" / "rigs" / "pendulum"
RIG = EXAMPLE / "pendulum.toml"
PERIOD = Period.of(0.005)
MS = 1_000_000
FAULT = """
[[bus_faults]]
bus = "controller.i2c"
kind = "stuck_sda"
begin = 0.3
end = 0.35
"""


def changed(folder: Path, old: str, new: str, more: str = "") -> Path:
    """The example's rig file with one change, and its firmware beside it."""
    text = RIG.read_text(encoding="utf-8")
    assert old in text, old
    path = folder / "pendulum.toml"
    path.write_text(text.replace(old, new, 1) + more, encoding="utf-8")
    (folder / "pendulum.hex").write_bytes((EXAMPLE / "pendulum.hex").read_bytes())
    return path


PICO = EXAMPLE / "pendulum_pico.toml"


def with_fault(kind: str, begin_ms: int, end_ms: int) -> Rig:
    fault = BusFault(kind, begin_ms * MS, end_ms * MS)
    return replace(load_rig(RIG), bus_faults=(RigBusFault("controller.i2c", fault),))


def flown(rig: Rig, ticks: int, rate: float = 0.0) -> tuple[list[list[float]], list[int]]:
    """What the rig answers to a tilt of 0.1 g and a rate, and how often its faults acted."""
    need("avr8js", *(["rp2040js"] if "pico" in rig.devices[0].board else []))
    controller = RigController(rig, PERIOD).fresh()
    answers = []
    for tick in range(ticks):
        tag = Tag(tick * 5 * MS)
        controller.send(tag, np.array([rate, 0.1, 0.995]))
        found = controller.receive(tag, 0.005)
        assert found is not None
        answers.append(found.tolist())
    assert controller.buses is not None
    acted = controller.buses.acted
    controller.close()
    return answers, acted


def test_the_example_declares_its_sensor() -> None:
    rig = load_rig(RIG)
    assert rig.interface(PERIOD).inputs.names == ("rate", "tilt", "upright")
    (imu,) = rig.bus_devices
    assert (imu.at, imu.address, imu.kind) == ("controller.i2c", 0x68, "mpu6050")
    assert [(s.name, s.quantity) for s in imu.signals] == [
        ("rate", "gyro_y"), ("tilt", "accel_x"), ("upright", "accel_z"),
    ]  # fmt: skip


@pytest.mark.long
def test_the_motor_is_set_from_what_the_sensor_measures() -> None:
    """-60 / s2 * 0.1 rad = -6 rad/s2, within a step of the PWM (0.157) and of the ADC (0.039)."""
    answers, _ = flown(load_rig(RIG), 12)
    assert answers[-1][0] == pytest.approx(-6.0, abs=0.2)
    first = next(drive for drive, _ in flown(load_rig(RIG), 6, rate=0.5)[0] if drive < -8.0)
    assert -12.8 < first < -11.8, "12 / s * 0.5 rad/s more, and 0.15 for each tick since"
    assert all(failing == 0.0 for _, failing in answers)


@pytest.mark.long
def test_a_board_of_another_clock_and_voltage() -> None:
    """A Pico of 125 MHz and 3.3 V at a node of 16 MHz: the same within a step of its ADC (0.06)."""
    answers, _ = flown(load_rig(PICO), 8)
    assert answers[-1][0] == pytest.approx(-6.0, abs=0.2)
    assert flown(load_rig(PICO), 8)[0] == answers


def test_a_wire_from_5_to_3_3_volts_is_refused(tmp_path: Path) -> None:
    text = PICO.read_text(encoding="utf-8").replace(
        "[from_pins]",
        '[to_pins]\nlamp = { pin = "D5", kind = "digital_out", safe = 0 }\n[from_pins]',
    )
    path = tmp_path / "rig.toml"
    path.write_text(f'{text}\n[[wires]]\nfrom = "node.D5"\nto = "controller.GP9"\n', "utf-8")
    (tmp_path / "pendulum_pico.hex").write_bytes((EXAMPLE / "pendulum_pico.hex").read_bytes())
    with pytest.raises(
        InterfaceError, match=r"node.D5 drives 5 V, but controller.GP9 takes at most"
    ):
        load_rig(path)


@pytest.mark.long
def test_a_stuck_line_stops_the_motor_as_declared_and_runs_are_equal() -> None:
    rig = with_fault("stuck_sda", 40, 60)
    answers, acted = flown(rig, 18)
    failing = [n for n, (_, wrong) in enumerate(answers) if wrong]
    assert failing == [10, 11, 12], "a read fails 2 ms after its begin, and is seen a tick later"
    drives = [drive for drive, _ in answers]
    assert drives[7] == pytest.approx(-6.0, abs=0.2) == drives[-1]
    assert abs(drives[11]) < 0.2, "duty 1/2 while the sensor cannot be read"
    assert acted[0] > 0
    assert flown(rig, 18) == (answers, acted)


@pytest.mark.long
def test_a_sensor_that_is_not_acknowledged() -> None:
    answers, acted = flown(with_fault("nack_address", 40, 50), 14)
    failing = [n for n, (_, wrong) in enumerate(answers) if wrong]
    assert failing
    assert set(failing) <= {9, 10, 11}
    assert acted[0] >= 2
    assert not answers[-1][1]


def test_a_value_that_is_no_number_ends_the_run() -> None:
    need("avr8js")
    controller = RigController(load_rig(RIG), PERIOD).fresh()
    try:
        with pytest.raises(ControllerError, match=r"gyro_y = nan is not finite"):
            controller.send(Tag(0), np.array([np.nan, 0.0, 1.0]))
    finally:
        controller.close()


def test_a_real_board_has_real_sensors() -> None:
    with pytest.raises(ScenarioError, match=r"simulated bus devices \(imu\), which need emulated"):
        RigController(load_rig(RIG).on("serial:///dev/ttyACM0"), PERIOD)


WRONG = [
    ('"mpu6050"', '"mpu6051"', 17, "unknown bus device 'mpu6051'; did you mean mpu6050"),
    ('"controller.i2c"', '"controler.i2c"', 18, "unknown board 'controler'"),
    ('"controller.i2c"', '"node.i2c"', 18, "unknown board 'node'"),
    ('"controller.i2c"', '"controller.i2d"', 18, "an Uno has no bus 'i2d'; known: i2c, spi"),
    ('"controller.i2c"', '"controller.spi"', 18, "choose controller.i2c"),
    ("0x68", "0x40", 19, "address = 64 is not valid; choose 0x68, 0x69"),
    ("address = 0x68", 'select = "D10"', 19, "select does not apply to i2c; remove it"),
    ("address = 0x68", 'pins = { it = "D2" }', 19, "unknown output 'it'"),
    ("address = 0x68", 'pins = { int = "D99" }', 19, "an Uno has no pin 'D99'"),
    ("address = 0x68", "options = { a = 1 }", 19, "unknown option 'a'"),
    ("gyro_y = {", "gyro_w = {", 22, "unknown quantity 'gyro_w'"),
    ('signal = "tilt"', 'signal = "rate"', 23, "the signal rate exists already"),
    ("scale = 57.29577951308232", "scale = inf", 22, "scale = inf is not valid; write"),
    ("scale = 57", "skale = 57", 22, "unknown key 'skale'; did you mean scale"),
    ('firmware = "pendulum.hex"', 'firmware = "pendulum.hex"\nboard = "board:uno?backend=simavr"',
     19, 'the emulator simavr has no buses; write board = "board:uno.backend=avr8js"'),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "said"), WRONG)
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, said: str
) -> None:
    path = changed(tmp_path, old, new)
    with pytest.raises(InterfaceError, match=said) as caught:
        load_rig(path)
    assert str(caught.value).startswith(f"{path}:{line}: "), str(caught.value)


@pytest.mark.parametrize(("old", "new", "line", "said"), [
    ('signal = "rate", ', "", 22, "unknown input 'gyro_y' in the replacement of balance"),
    ('signal = "tilt"', 'signal = "tlt"', 23, "unknown input 'tlt' in the replacement"),
    ("drive = {", "drve = {", 10, "unknown output 'drve' in the replacement of balance"),
])  # fmt: skip
def test_a_signal_that_the_scenario_lacks_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, said: str
) -> None:
    path = changed(tmp_path, old, new)
    done = CliRunner().invoke(hitl, [str(EXAMPLE / "pendulum.py"), "--rig", str(path)])
    assert done.exit_code == 2
    assert f"{path}:{line}: {said}" in done.output, done.output


WRONG_FAULTS = [
    ('"stuck_sda"', '"stuck"', "unknown kind 'stuck'"),
    ('"controller.i2c"\nkind', '"controller.spi"\nkind', "unknown bus 'controller.spi'"),
    ("end = 0.35", "end = 0.2", "begin = 0.3 and end = 0.2 allow no time"),
    ("end = 0.35", 'device = "imu"', "stuck_sda acts on all devices of the bus, not on one"),
    ("end = 0.35", "mask = 1", "mask applies only to wrong_byte"),
    ('"stuck_sda"', '"nack_data"\ndevice = "gps"', "unknown device 'gps'"),
    ('"stuck_sda"', '"wrong_byte"\nmask = 256', "write an integer from 0x01 to 0xff"),
    ("begin = 0.3", "begn = 0.3", "unknown key 'begn'; did you mean begin"),
]


@pytest.mark.parametrize(("old", "new", "said"), WRONG_FAULTS)
def test_a_wrong_fault_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert old in FAULT
    path = changed(tmp_path, "name", "name", FAULT.replace(old, new, 1))
    begin = path.read_text(encoding="utf-8").split("\n").index("[[bus_faults]]") + 1
    with pytest.raises(InterfaceError, match=said) as caught:
        load_rig(path)
    found = re.match(rf"{re.escape(str(path))}:(\d+): bus_faults 1: ", str(caught.value))
    assert found is not None, str(caught.value)
    assert begin < int(found[1]) <= begin + 5, "the line of the wrong key"


def test_two_devices_at_one_place(tmp_path: Path) -> None:
    second = '\n[bus_devices.other]\nkind = "mpu6050"\nbus = "controller.i2c"\n'
    with pytest.raises(InterfaceError, match=r"imu is already at 0x68 of controller\.i2c"):
        load_rig(changed(tmp_path, "name", "name", second))
    load_rig(changed(tmp_path, "name", "name", f"{second}address = 0x69\n"))


def test_a_converter_at_spi(tmp_path: Path) -> None:
    adc = """
[bus_devices.adc]
kind = "mcp3008"
bus = "controller.spi"
select = "D10"
options = { vref = 3.3 }
quantities = { ch2 = { signal = "level", scale = 0.5 }, ch3 = 1.5 }
"""
    rig = load_rig(changed(tmp_path, "name", "name", adc))
    _, placed = rig.bus_devices
    assert (placed.select, placed.options, placed.constants) == (
        "D10",
        {"vref": 3.3},
        (("ch3", 1.5),),
    )
    assert rig.interface(PERIOD).inputs.names == ("rate", "tilt", "upright", "level")
    for old, new, said in (
        ('select = "D10"', "", "select is missing"),
        ('select = "D10"', 'select = "D77"', "an Uno has no pin 'D77'"),
        ('select = "D10"', "address = 8", "address does not apply to spi; remove it"),
        ("vref = 3.3", "vref = 0", "vref = 0 V must be positive"),
        ("controller.spi", "controller.i2c", "choose controller.spi"),
    ):
        with pytest.raises(InterfaceError, match=said):
            load_rig(changed(tmp_path, "name", "name", adc.replace(old, new)))


@pytest.mark.long
def test_the_example_flies_with_a_fault_and_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pendulum stays up; the reference controller alone does the same within 0.02 rad."""
    need("avr8js")
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    assert runner.invoke(hitl, ["--example", "pendulum"]).exit_code == 0
    with Path("pendulum.toml").open("a", encoding="utf-8") as file:
        file.write(FAULT)
    rig = ["pendulum.py", "--rig", "pendulum.toml", "--json"]
    told = [json.loads(runner.invoke(hitl, [*rig, "-o", f"{n}.mcap"]).output) for n in "ab"]
    assert told[0]["rig"] == told[1]["rig"]
    assert told[0]["rig"]["bus_faults"][0]["kind"] == "stuck_sda"
    assert told[0]["rig"]["bus_faults"][0]["operations"] >= 10
    reference = runner.invoke(main, ["run", "pendulum.py", "-o", "reference.mcap"])
    assert reference.exit_code == 0, reference.output
    for words in (
        ["replay", "a.mcap"],
        ["compare", "a.mcap", "b.mcap"],
        [
            "compare",
            "reference.mcap",
            "a.mcap",
            "--common",
            "--abs",
            "1000",
            "--tol",
            "pendulum.angle=0.02",
        ],
    ):
        done = runner.invoke(main, words)
        assert done.exit_code == 0, done.output

"""``rtsim hitl`` as typed: the example, its recording, what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from emulated_board_parts import need
from firmware_parts import with_avr_gcc
from rig_parts import EXAMPLE, RIG, changed

from hitl.cli.hitl import hitl
from hitl.firmware.firmware import FOLDER as IMAGES
from rtsim.cli.main import main

SCENARIO = EXAMPLE / "illumination.py"
ARGUMENTS = (str(SCENARIO), "--rig", str(RIG))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield
    os.chdir(before)


def typed(*arguments: str) -> Result:
    return CliRunner().invoke(hitl, [str(a) for a in arguments])


@pytest.mark.long
def test_the_example_flies_and_its_recording_replays_without_a_board() -> None:
    need("avr8js")
    written = typed("--example")
    assert written.output.splitlines() == [
        "illumination.toml", "illumination.hex", "illumination.py",
        "next: rtsim hitl illumination.py --rig illumination.toml",
    ]  # fmt: skip
    short = ("illumination.py", "--rig", "illumination.toml", "--until", "0.2", "--json")
    told = json.loads(typed(*short, "-o", "a.mcap").output)
    again = json.loads(typed(*short, "-o", "b.mcap").output)
    assert told["rig"]["signals"] == again["rig"]["signals"]
    assert told["rig"]["steps"] == 11
    assert (told["outcome"], told["exit_status"], told["why"]) == ("passed", 0, None)
    assert told["rig"]["late"] == told["rig"]["silences"] == 0
    assert told["rig"]["signals"]["switchings"] >= 1.0
    for command in (["replay", "a.mcap"], ["compare", "a.mcap", "b.mcap"]):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, done.output
    assert typed("--example").exit_code == 2, "nothing is written over"


def test_what_it_prints_is_a_table_of_the_pins() -> None:
    need("avr8js")
    done = typed(*ARGUMENTS, "--until", "0.04", "--no-record")
    assert done.exit_code == 0, done.output
    assert "Rig illumination at board:uno" in done.output
    assert (
        "3 steps, 0 late, 0 missed, 0 requests repeated; "
        "the watchdog drove the fail-safe values 0 times"
    ) in done.output
    assert "500000 baud (+0.0 %); request 34 bytes 0.680 ms, step" in done.output
    assert "fits the period of 20.000 ms" in done.output
    for name, pin in (("light", "D3"), ("lamp", "D2"), ("lamp_on_at", "D2")):
        assert any(line.split()[:2] == [name, pin] for line in done.output.splitlines()), name


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--pace", "1"), "is emulated and runs in lockstep"),
        (("--board", "serial:///dev/none", "--pace", "max"), "can neither run faster nor wait"),
        (("--board", "serial:///dev/none", "--pace", "2"), "runs by its own clock, at rate 1"),
        (("--board", "bord:uno"), "is not a board URL"),
        (("-c", "swich"), "unknown controller 'swich'"),
        (("--latency", "0"), "needs a compute latency > 0 s"),
    ],
)
def test_what_cannot_be_done_is_said(more: tuple[str, ...], said: str) -> None:
    done = typed(*ARGUMENTS, "--no-record", *more)
    assert done.exit_code == 2, done.output
    assert said in done.output


def test_faults_at_the_line_of_a_rig_act_and_the_repeat_is_told(tmp_path: Path) -> None:
    need("avr8js")
    file = tmp_path / "faults.toml"
    file.write_text(
        '[[fault]]\nname = "cut"\nwhere = "switch.to_board"\nkind = "truncation"\n'
        "at = 0.06\ncount = 1\n"
    )
    done = typed(*ARGUMENTS, "--until", "0.1", "--faults", str(file), "--json", "-o", "a.mcap")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)["rig"]
    assert (told["repeated"], told["late"]) == (1, 0)
    shown = CliRunner().invoke(main, ["info", "a.mcap"]).output
    assert "no line here" not in shown


@pytest.mark.parametrize("image", ["thermostat_500000", "f16_control_single_115200"])
def test_firmware_with_rtsims_protocol_is_refused_as_a_device(image: str, tmp_path: Path) -> None:
    need("avr8js")
    rig = changed(tmp_path, "settle = 0.1", "settle = 0")
    (tmp_path / "illumination.hex").write_bytes((IMAGES / f"{image}.hex").read_bytes())
    done = typed(str(SCENARIO), "--rig", str(rig), "--no-record")
    assert done.exit_code == 2, done.output
    assert "illumination.toml:19: devices.switch: " in done.output
    assert (
        "is the firmware of a controller with rtsim's protocol, which uses no pins" in done.output
    )
    assert 'such as firmware = "switch.ino"' in done.output


SWITCH = """
const int DARK = 300, LIGHT = 400;
void setup() { pinMode(8, OUTPUT); }
void loop() { decide(analogRead(A0)); }
void decide(int level) {
  if (level < DARK) digitalWrite(8, HIGH);
  else if (level > LIGHT) digitalWrite(8, LOW);
}
"""


@with_avr_gcc
def test_a_sketch_is_a_device_and_a_fault_at_its_sensor_acts(tmp_path: Path) -> None:
    """The room is light, and a short circuit of the sensor makes it dark for the device."""
    need("avr8js")
    (tmp_path / "switch.ino").write_text(SWITCH)
    rig = changed(tmp_path, '"illumination.hex"', '"switch.ino"')
    (tmp_path / "faults.toml").write_text(
        '[[fault]]\nname = "short"\nwhere = "switch.light"\nkind = "stuck"\nvalue = 0\n'
        "at = 0.44\nduration = 0.06\n"
    )
    told = typed(
        str(SCENARIO), "--rig", str(rig), "--faults", "faults.toml", "--until", "0.6", "--json",
        "-o", "a.mcap",
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    signals = json.loads(told.output)["rig"]["signals"]
    assert 0.44 < signals["lamp_on_at"] < 0.48
    assert 0.50 < signals["lamp_off_at"] < 0.53
    assert signals["lamp"] == 0.0


def test_a_watchdog_that_would_bark_within_a_period_is_refused(tmp_path: Path) -> None:
    rig = changed(tmp_path, "watchdog = 0.1", "watchdog = 0.02")
    done = typed(str(SCENARIO), "--rig", str(rig), "--no-record")
    assert done.exit_code == 2, done.output
    assert (
        "illumination.toml:3: watchdog = 0.02 s is not longer than the controller's period"
        in done.output
    )


def test_the_picture_of_the_wiring_is_printed() -> None:
    done = typed("--diagram", str(RIG))
    assert done.exit_code == 0
    assert done.output.startswith("<svg ")
    kept = Path(__file__).parents[3] / "docs" / "pictures" / "rig.svg"
    assert kept.read_text(encoding="utf-8") == done.output, "draw it anew: rtsim hitl --diagram"
    wrong = typed("--diagram", "none.toml")
    assert wrong.exit_code == 2
    assert "give the path of a rig file" in wrong.output

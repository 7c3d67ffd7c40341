"""``rtsim hitl`` names faults of buses that never acted, and devices that were never asked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from emulated_board_parts import need

from hitl.bus_devices.device import KINDS, BusFault, why_idle
from hitl.cli.hitl import hitl

EXAMPLE = Path(__file__).parents[3] / "hitl" / "rigs" / "pendulum"
MS = 1_000_000
FAULTS = """
[[bus_faults]]
bus = "controller.i2c"
kind = "stuck_sda"
begin = 5

[[bus_faults]]
bus = "controller.i2c"
kind = "nack_data"
device = "imu"
begin = 0.01
end = 0.02
"""
ADC = """
[bus_devices.adc]
kind = "mcp3008"
bus = "controller.spi"
select = "D10"
"""


def run(folder: Path, address: str, more: str, *words: str) -> Result:
    """The example with its sensor at ``address``, for 0.03 s."""
    need("avr8js")
    text = (EXAMPLE / "pendulum.toml").read_text(encoding="utf-8").replace("0x68", address)
    (folder / "pendulum.hex").write_bytes((EXAMPLE / "pendulum.hex").read_bytes())
    rig = folder / "pendulum.toml"
    rig.write_text(text + more, encoding="utf-8")
    words = (str(EXAMPLE / "pendulum.py"), "--rig", str(rig), "--until", "0.03", *words)
    return CliRunner().invoke(hitl, [*words, "--no-record"])


def test_a_fault_that_never_acted_says_why(tmp_path: Path) -> None:
    done = run(tmp_path, "0x68", FAULTS, "--strict")
    assert done.exit_code == 1, done.output
    assert (
        "fault stuck_sda at controller.i2c never acted: it begins at 5 s, and the boards ran "
        "until 0.03" in done.output
    )
    acted = re.search(r"fault nack_data at controller.i2c \(imu\): (\d+) operations", done.output)
    assert acted is not None
    assert int(acted[1]) > 0
    assert "was never" not in done.output, "the sensor is read"


def test_a_device_that_the_firmware_never_asked_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "0x69", FAULTS + ADC, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)["rig"]
    assert told["unused_bus_devices"] == {
        "imu": "imu was never addressed; the firmware asked for the address 0x68, where no device "
        "is",
        "adc": "adc was never selected",
    }
    assert told["bus_faults"][1]["operations"] == 0
    assert told["bus_faults"][1]["idle"] == (
        "imu never acknowledged a written byte from 0.01 s to 0.02 s"
    )
    assert "\nimu was never addressed; the firmware" in run(tmp_path, "0x69", "").output


@pytest.mark.parametrize(("kind", "words"), [
    ("stuck_sda", "the bus had no operation"),
    ("nack_address", "no device got its address"),
    ("nack_data", "no device acknowledged a written byte"),
    ("wrong_byte", "no device sent a byte"),
])  # fmt: skip
def test_the_reason_names_the_time_in_which_the_fault_could_act(kind: str, words: str) -> None:
    assert kind in KINDS
    assert why_idle(BusFault(kind, 10 * MS), 30 * MS) == f"{words} from 0.01 s to the end"
    for end, until in ((20, "0.02 s"), (40, "the end")):
        fault = BusFault(kind, 10 * MS, end * MS)
        assert why_idle(fault, 30 * MS) == f"{words} from 0.01 s to {until}"

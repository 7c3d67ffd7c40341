"""The simulated bus devices by their data sheets, and the suite that checks every device.

Drivers in C on emulated boards read simulated bus devices: values, times, faults.

The program is firmware/tests/buses.c, with the drivers of firmware/bus.
"""

from __future__ import annotations

import itertools
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from emulated_board_parts import IMAGES, need
from firmware_parts import with_avr_gcc

from hitl.boards import BoardError, open_board
from hitl.boards.emulated import EmulatedBoard
from hitl.boards.intel_hex import read_image
from hitl.boards.pico import PICO
from hitl.bus_devices import DEVICES
from hitl.bus_devices.device import BusDevice, BusFault, I2cDevice, Quantity, SpiDevice
from hitl.bus_devices.ends import I2cEnd, Placed, SpiEnd
from hitl.bus_devices.mcp3008 import Mcp3008
from hitl.bus_devices.mpu6050 import Mpu6050
from hitl.testing.bus_devices import check_bus_device
from rtsim.core.errors import ControllerError, ScenarioError, UnknownName

MS = 1_000_000


class Imu:
    """An MPU-6050 with a controller at its bus."""

    def __init__(self) -> None:
        self.device = Mpu6050()
        self.ns = 0

    def wait(self, ns: int) -> None:
        self.ns += ns
        self.device.advance(self.ns)

    def write(self, register: int, *values: int) -> None:
        assert self.device.start(False)
        assert all(self.device.write(byte) for byte in (register, *values))
        self.device.stop()
        self.wait(0)

    def read(self, register: int, count: int = 1) -> bytes:
        self.device.start(False)
        self.device.write(register)
        self.device.start(True)
        found = bytes(self.device.read() for _ in range(count))
        self.device.stop()
        return found

    def word(self, register: int) -> int:
        return int.from_bytes(self.read(register, 2), "big", signed=True)


@pytest.fixture
def imu() -> Imu:
    """A sensor that is awake, samples with 1 kHz, and has taken a sample."""
    out = Imu()
    out.write(0x1A, 1)
    out.write(0x6B, 0)
    out.wait(2 * MS)
    return out


def test_the_registers_after_power_on() -> None:
    """RM-MPU-6000A-00 revision 4.2, section 3: 0x00, but PWR_MGMT_1 0x40 and WHO_AM_I 0x68."""
    found = Imu().read(0, 128)
    assert {n: v for n, v in enumerate(found) if v} == {0x6B: 0x40, 0x75: 0x68}


@pytest.mark.parametrize(
    ("select", "per_g", "per_deg_s"),
    [(0, 16384, 131), (1, 8192, 65.5), (2, 4096, 32.8), (3, 2048, 16.4)],
)
def test_the_scales_are_those_of_the_register_map(
    imu: Imu, select: int, per_g: float, per_deg_s: float
) -> None:
    """RM-MPU-6000A-00 revision 4.2, sections 4.17 and 4.19: LSB per g and per deg/s."""
    imu.write(0x1B, select << 3, select << 3)  # GYRO_CONFIG, ACCEL_CONFIG
    for n, axis in enumerate("xyz"):
        imu.device.set(f"accel_{axis}", -1.25 + n)
        imu.device.set(f"gyro_{axis}", 100.0 - 70 * n)
    imu.wait(MS)
    assert [imu.word(0x3B + 2 * n) for n in range(3)] == [
        round((-1.25 + n) * per_g) for n in range(3)
    ]
    assert [imu.word(0x43 + 2 * n) for n in range(3)] == [
        round((100.0 - 70 * n) * per_deg_s) for n in range(3)
    ]
    imu.device.set("gyro_x", 1e6)
    imu.device.set("accel_x", -1e6)
    imu.wait(MS)
    assert (imu.word(0x43), imu.word(0x3B)) == (32767, -32768)


def test_the_temperature_is_that_of_the_register_map(imu: Imu) -> None:
    """Section 4.18: degrees Celsius = TEMP_OUT / 340 + 36.53."""
    assert imu.word(0x41) / 340 + 36.53 == pytest.approx(25.0, abs=0.5 / 340)


@pytest.mark.parametrize(
    ("config", "divider", "ns"), [(0, 7, MS), (7, 0, 125_000), (1, 0, MS), (6, 9, 10 * MS)]
)
def test_the_sample_rate(imu: Imu, config: int, divider: int, ns: int) -> None:
    """Section 4.2: 8 kHz (DLPF_CFG 0 or 7) or 1 kHz, divided by 1 + SMPLRT_DIV."""
    imu.write(0x19, divider, config)
    imu.wait(0)
    imu.device.set("gyro_x", 10.0)
    imu.wait(ns - 1)
    assert imu.word(0x43) == 0
    imu.wait(1)
    assert imu.word(0x43) == 1310


def test_data_ready_at_its_register_and_its_pin(imu: Imu) -> None:
    """Sections 4.15 to 4.17: 50 us high, or latched until INT_STATUS is read."""
    assert imu.read(0x3A) == b"\x00", "the interrupt is off"
    imu.write(0x38, 1)
    due = imu.device.due_ns()
    assert due == 3 * MS
    assert not imu.device.level("int")
    imu.wait(due - imu.ns)
    assert imu.device.level("int")
    assert imu.device.due_ns() == due + 50_000
    imu.wait(50_000)
    assert not imu.device.level("int")
    assert imu.read(0x3A) == b"\x01"
    assert imu.read(0x3A) == b"\x00"
    imu.write(0x37, 0xA0)  # latched, active low
    imu.wait(MS)
    assert not imu.device.level("int")
    imu.read(0x3A)
    assert imu.device.level("int")


def test_a_burst_reads_one_sample(imu: Imu) -> None:
    """Section 4.17: the registers do not change while the serial interface is in use."""
    imu.device.start(False)
    imu.device.write(0x3B)
    imu.device.start(True)
    before = [imu.device.read() for _ in range(7)]
    imu.device.set("gyro_x", 100.0)
    imu.wait(5 * MS)
    after = [imu.device.read() for _ in range(7)]
    imu.device.stop()
    imu.wait(0)
    assert (before[4:6], after[1:3]) == ([0x40, 0x00], [0, 0])
    assert imu.word(0x43) == 13100


def test_sleep_standby_reset_and_read_only(imu: Imu) -> None:
    imu.write(0x6C, 0b001000)  # STBY_ZA: the accelerometer's z axis
    imu.device.set("accel_z", 0.0)
    imu.device.set("accel_x", 1.0)
    imu.wait(MS)
    assert (imu.word(0x3F), imu.word(0x3B)) == (16384, 16384)
    imu.write(0x75, 0)
    assert imu.read(0x75) == b"\x68"
    imu.write(0x6B, 0x40)
    imu.device.set("accel_x", 0.0)
    imu.wait(9 * MS)
    assert imu.word(0x3B) == 16384, "a sleeping sensor keeps its sample"
    imu.write(0x6B, 0x80)
    assert (imu.read(0x6B), imu.read(0x6C), imu.word(0x3B)) == (b"\x40", b"\x00", 0)


def codes(adc: Mcp3008, configuration: int) -> int:
    """The code by the three bytes of the data sheet's section 6.1."""
    adc.select()
    data = [adc.transfer(byte) for byte in (1, configuration << 4, 0)]
    adc.deselect()
    assert data[1] & 4 == 0, "the null bit"
    return (data[1] & 3) << 8 | data[2]


def test_every_code_of_the_mcp3008() -> None:
    """DS21295D, equation 4-2: code = 1024 * VIN / VREF."""
    adc = Mcp3008({"vref": 4.096})
    for code in range(1024):
        adc.set("ch5", (code + 0.5) * 0.004)
        assert codes(adc, 8 + 5) == code
    adc.set("ch5", 4.2)
    assert codes(adc, 8 + 5) == 1023
    adc.set("ch5", -0.1)
    assert codes(adc, 8 + 5) == 0 == codes(adc, 8 + 4)


def test_differential_inputs_and_the_bits_that_follow() -> None:
    """DS21295D, table 5-2, and figure 5-1: after the last bit the code comes backwards."""
    adc = Mcp3008()
    adc.set("ch2", 3.0)
    adc.set("ch3", 1.0)
    assert codes(adc, 2) == 409
    assert codes(adc, 3) == 0
    adc.set("ch0", 5.0 * 0b1100101101 / 1024)
    adc.select()
    bits = "".join(f"{adc.transfer(byte):08b}" for byte in (0x60, 0, 0, 0))
    assert bits[:8] == "1" * 7 + "0", "silent up to the null bit"
    assert bits[8:18] == "1100101101"
    assert bits[18:] == "011010011" + 5 * "0"


@pytest.mark.parametrize("name", list(DEVICES))
def test_the_suite_accepts_the_devices(name: str) -> None:
    check_bus_device(name, DEVICES[name])


def test_wrong_values_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"vref = -1 V must be positive"):
        Mcp3008({"vref": -1})
    with pytest.raises(ScenarioError, match="option vref = inf is not finite"):
        Mcp3008({"vref": float("inf")})
    with pytest.raises(UnknownName, match="unknown option 'vreff'"):
        Mcp3008({"vreff": 5})
    with pytest.raises(ControllerError, match=r"gyro_x = inf is not finite"):
        Mpu6050().set("gyro_x", float("inf"))


class Echo(SpiDevice):
    """A device of another package, for the suite."""

    quantities: ClassVar[tuple[Quantity, ...]] = (Quantity("level", "V"),)
    seen = 0

    def transfer(self, byte: int) -> int:
        out, self.seen = self.seen, byte
        return out


class TooMuch(Echo):
    def transfer(self, byte: int) -> int:
        return byte + 1


class Shared(Echo):
    def transfer(self, byte: int) -> int:  # noqa: ARG002
        type(self).seen += 1
        return type(self).seen & 255


class Counts(Echo):
    def advance(self, ns: int) -> None:  # noqa: ARG002
        self.seen = (self.seen + 1) & 255


class Overdue(Echo):
    outputs = ("int",)

    def due_ns(self) -> int | None:
        return 5


class Reserved(I2cDevice):
    address = 0x03


class Twice(Echo):
    quantities = 2 * Echo.quantities


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (TooMuch, r"transfer\(\) returned 256"),
        (Shared, "different answers to equal operations"),
        (Counts, "depend on how often advance"),
        (Overdue, r"due_ns\(\) returned 5 ns, which is not after 5 ns"),
        (Reserved, "address 0x03; expected 0x08 to 0x77"),
        (Twice, "two quantities have one name"),
    ],
)
def test_the_suite_refuses_broken_devices(
    monkeypatch: pytest.MonkeyPatch, made: type[BusDevice], said: str
) -> None:
    monkeypatch.setattr(DEVICES, "_added", {})
    with pytest.raises(AssertionError, match="is not registered"):
        check_bus_device("echo", Echo)
    DEVICES.add("echo", Echo)
    check_bus_device("echo", Echo)
    DEVICES.add("broken", made)
    with pytest.raises(AssertionError, match=said):
        check_bus_device("broken", made)


def test_what_is_no_device_is_not_added() -> None:
    with pytest.raises(ScenarioError, match="expected a class that derives from I2cDevice or Spi"):
        DEVICES.add("thing", int)  # type: ignore[arg-type]


OK, NO_DEVICE, REFUSED, TIMEOUT, LOST = range(5)
"""Reasons of firmware/bus/i2c.h."""
EXAMPLE = IMAGES.parent / "examples" / "pendulum"
BOARDS = {
    "uno": ("board:uno", "avr8js", "buses.hex", "i2c", "spi", "D10"),
    "mega2560": ("board:mega2560", "avr8js", "buses_mega2560.hex", "i2c", "spi", "D53"),
    "pico": ("board:pico?baud=500000", "rp2040js", "pico/buses.hex", "i2c0", "spi0", "GP17"),
}
each = pytest.mark.parametrize(
    "name", ["uno", "pico", pytest.param("mega2560", marks=pytest.mark.long)]
)


@dataclass
class Bench:
    """A board that does on its buses what the serial line asks for."""

    board: EmulatedBoard
    i2c: I2cEnd
    spi: SpiEnd
    sensor: Mpu6050

    def ask(self, request: bytes, count: int) -> bytes:
        """The answer of ``count`` bytes."""
        self.board.send(request)
        out = b""
        while len(out) < count:
            assert self.board.wait(0.1), f"{request!r}: only {out!r}"
            out += self.board.receive()
        return out

    def transfer(self, address: int, out: bytes, count: int = 0) -> tuple[int, bytes]:
        """The reason and the bytes of one transfer."""
        found = self.ask(bytes((ord("I"), address, len(out), count)) + out, 1 + count)
        return found[0], found[1:]

    def sample(self) -> tuple[int, ...]:
        """Reason, accelerations, temperature and rates."""
        return struct.unpack("<B7h", self.ask(b"R", 15))

    def code(self, channel: int) -> int:
        return int.from_bytes(self.ask(bytes((ord("A"), channel)), 2), "little")

    def fault(self, kind: str, ms: float | None = None, mask: int = 0xFF) -> BusFault:
        """A fault from now on."""
        self.i2c.begin()
        fault = BusFault(kind, 0, None if ms is None else round(ms * MS), mask=mask)
        self.i2c.faults[:] = [fault]
        return fault


@contextmanager
def bench(name: str) -> Iterator[Bench]:
    url, backend, image, i2c, spi, select = BOARDS[name]
    need(backend)
    board = open_board(url, IMAGES / image)
    try:
        sensor = Mpu6050()
        out = Bench(
            board,
            I2cEnd(board, i2c, [Placed("imu", sensor, 0x68)]),
            SpiEnd(board, spi, [Placed("adc", Mcp3008(), select=select)]),
            sensor,
        )
        board.advance(board.clock_hz // 1000)  # the program begins
        yield out
    finally:
        board.close()


def conversation(name: str) -> tuple[int, list[object]]:
    """What a board reads in a fixed sequence of requests, and the cycle at its end."""
    with bench(name) as on:
        told: list[object] = [on.ask(b"M", 1)]
        for k in range(2):
            on.i2c.set("imu", "gyro_y", 30.0 * k)
            on.spi.set("adc", "ch1", k)
            on.board.advance(on.board.clock_hz // 500)
            told += [on.sample(), on.code(1), on.board.cycles]
        on.fault("stuck_sda", 2.0)
        told += [on.sample()[0], on.sample(), on.board.cycles]
        return on.board.cycles, told


@each
def test_the_sensor_is_read(name: str) -> None:
    with bench(name) as on:
        assert on.transfer(0x68, b"\x75", 1) == (OK, b"\x68")  # WHO_AM_I
        assert on.ask(b"M", 1) == bytes([OK])
        assert on.transfer(0x68, b"\x19", 4) == (OK, b"\x00\x01\x08\x08")
        on.i2c.set("imu", "gyro_y", -100.0)
        on.i2c.set("imu", "accel_x", 0.5)
        on.board.advance(on.board.clock_hz // 500)
        assert on.sample() == (OK, 4096, 0, 8192, -3920, 0, -6550, 0)


@each
def test_swept_voltages_give_exact_codes(name: str) -> None:
    with bench(name) as on:
        assert on.spi.why_unused("adc") == "adc was never selected"
        for code in (0, 1, 255, 256, 511, 512, 767, 1022, 1023):
            on.spi.set("adc", "ch6", (code + 0.5) * 5.0 / 1024)
            assert on.code(6) == code
        assert on.code(5) == 0
        assert on.spi.why_unused("adc") == ""
        on.spi.faults[:] = [BusFault("wrong_byte", 0, mask=0x01)]
        assert on.code(6) == 1023 ^ 0x101, "a bit of each of the two bytes"


@pytest.mark.parametrize(("name", "bit"), [("uno", 16 + 2 * 12), ("pico", 106 + 11 + 7 + 188)])
def test_a_byte_takes_nine_clocks(name: str, bit: int) -> None:
    """TWBR: DS40002061B, section 22.5.2.  HCNT and LCNT: RP2040 data sheet, section 4.3.14."""
    with bench(name) as on:
        begun: list[int] = []
        took = on.i2c.took

        def watched(op: object, byte: int, cycle: int) -> object:
            begun.append(cycle)
            return took(op, byte, cycle)  # type: ignore[arg-type]

        on.i2c.took = watched  # type: ignore[assignment, method-assign]
        on.transfer(0x68, b"\x6c" + bytes(12))
        gaps = [b - a for a, b in itertools.pairwise(begun[2:])]
        assert len(gaps) == 13, "the bytes behind the address, and the STOP"
        assert all(9 * bit <= gap < 9 * bit + 120 for gap in gaps), gaps


@each
def test_no_device_and_no_acknowledgement(name: str) -> None:
    with bench(name) as on:
        assert on.transfer(0x40, b"\x00") == (NO_DEVICE, b"")
        assert on.transfer(0x40, b"", 1)[0] == NO_DEVICE
        assert on.i2c.why_unused("imu").endswith("asked for the address 0x40, where no device is")
        nack = on.fault("nack_address")
        assert on.transfer(0x68, b"\x75", 1)[0] == NO_DEVICE
        assert on.i2c.acted[nack] == 1
        assert on.i2c.why_unused("imu") == "", "it was addressed, though it did not acknowledge"
        on.fault("nack_data")
        assert on.transfer(0x68, b"\x75", 1)[0] == REFUSED
        on.fault("wrong_byte", mask=0x03)
        assert on.transfer(0x68, b"\x75", 1) == (OK, b"\x6b")
        on.i2c.faults.clear()
        assert on.transfer(0x68, b"\x75", 1) == (OK, b"\x68"), "the bus is free again"


@each
def test_a_line_that_is_held_low(name: str) -> None:
    """The driver gives up in a bounded time, and reads again once the line is free."""
    with bench(name) as on:
        assert on.ask(b"M", 1) == bytes([OK])
        on.fault("stuck_sda", 3.0)
        begun = on.board.cycles
        reasons: list[int] = []
        while not reasons or reasons[-1] != OK:
            reasons.append(on.transfer(0x68, b"\x75", 1)[0])
        assert set(reasons[:-1]) == {TIMEOUT}
        took = (on.board.cycles - begun) / on.board.clock_hz
        assert 0.003 < took < 0.007
        on.fault("stuck_sda")  # for ever
        assert on.transfer(0x68, b"\x75", 1)[0] == TIMEOUT
        on.i2c.faults.clear()
        assert on.transfer(0x68, b"\x75", 1)[0] == OK, "the board forgot what it could not send"


@each
def test_a_line_that_falls_within_a_transfer(name: str) -> None:
    """A 1 that is read back as 0 is a lost arbitration."""
    with bench(name) as on:
        took = on.i2c.took

        def watched(op: int, byte: int, cycle: int) -> object:
            if op == 1:  # the address: from now on SDA is low
                on.fault("stuck_sda", 2.0)
            return took(op, byte, cycle)  # type: ignore[arg-type]

        on.i2c.took = watched  # type: ignore[assignment, method-assign]
        assert on.transfer(0x68, b"\x75", 1)[0] == LOST


@pytest.mark.sample(1)
@each
def test_two_runs_are_equal_to_the_cycle(name: str) -> None:
    first, again = conversation(name), conversation(name)
    assert first == again
    assert first[1][0] == bytes([OK])
    last = first[1][-2]
    assert isinstance(last, tuple)
    assert last[0] == OK


def test_a_pin_that_a_device_drives() -> None:
    """The sensor's INT at D2: one pulse for each sample, seen by the processor's input register."""
    need("avr8js")
    board = open_board("board:uno", IMAGES / "buses.hex")
    try:
        sensor = Mpu6050()
        end = I2cEnd(board, "i2c", [Placed("imu", sensor, 0x68, pins={"int": "D2"})])
        on = Bench(board, end, None, sensor)  # type: ignore[arg-type]
        board.advance(16_000)
        on.ask(b"M", 1)
        on.transfer(0x68, b"\x38\x01")
        levels = []
        for _ in range(400):
            board.advance(160)  # 10 us
            levels.append(board.peek(0x29, 1)[0] >> 2 & 1)  # PIND
        assert sum(levels) == 20, "four pulses of 50 us in 4 ms"
        assert sum(b > a for a, b in itertools.pairwise(levels)) in (3, 4)
    finally:
        board.close()


def test_what_cannot_be_attached() -> None:
    with bench("uno") as on:
        with pytest.raises(BoardError, match="i2c of an Uno has an end already"):
            I2cEnd(on.board, "i2c", [])
        with pytest.raises(BoardError, match="spi of an Uno is a bus of kind spi"):
            I2cEnd(on.board, "spi", [])
        with pytest.raises(BoardError, match="an Uno has no bus 'i2c7'; known: i2c, spi"):
            I2cEnd(on.board, "i2c7", [])


@with_avr_gcc
def test_the_image_of_the_example_is_what_its_source_makes(tmp_path: Path) -> None:
    """By content where the compiler is the one of Debian 12; by being built, with any other."""
    make = ["make", "-s", "-C", str(EXAMPLE), f"OUT={tmp_path}"]
    subprocess.run(make, check=True)
    kept = IMAGES.parents[1] / "hitl/rigs/pendulum/pendulum.hex"
    version = subprocess.run(["avr-gcc", "-dumpversion"], capture_output=True, text=True)
    made = read_image(tmp_path / "pendulum.hex")
    if version.stdout.strip() == "5.4.0":
        assert made == read_image(kept)


@pytest.mark.long
def test_the_image_of_the_pico_is_what_its_source_makes(tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    folder = IMAGES / "pico"
    make = ["make", "-s", "-C", str(folder), f"OUT={tmp_path}", f"PYTHON={sys.executable}"]
    subprocess.run(make, check=True, capture_output=True)
    make = ["make", "-s", "-C", str(EXAMPLE), "pico", *make[4:]]
    subprocess.run(make, check=True, capture_output=True)
    rig = IMAGES.parents[1] / "hitl/rigs/pendulum"
    for name, kept in (("buses.hex", folder), ("pendulum_pico.hex", rig)):
        found = [read_image(place / name, PICO) for place in (tmp_path, kept)]
        assert found[0] == found[1], name

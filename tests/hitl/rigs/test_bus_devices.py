"""The simulated bus devices by their data sheets, and the suite that checks every device."""

from __future__ import annotations

from typing import ClassVar

import pytest

from hitl.bus_devices import DEVICES
from hitl.bus_devices.device import BusDevice, I2cDevice, Quantity, SpiDevice
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

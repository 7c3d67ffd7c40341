"""The MPU-6050, a gyroscope and accelerometer with three axes on an I2C bus.

Registers, scales and reset values: MPU-6000/MPU-6050 Register Map and Descriptions,
RM-MPU-6000A-00, revision 4.2.  I2C: product specification PS-MPU-6000A-00, revision 3.4, section 9.

The model has no noise, offsets, filter delay, self-test, FIFO, auxiliary bus, cycle mode and motion
detection. Their registers store written values without effect.
"""

from __future__ import annotations

from collections.abc import Mapping

from hitl.bus_devices.device import I2cDevice, Quantity
from rtsim.core.tag import NS_PER_S

SMPLRT_DIV, CONFIG, GYRO_CONFIG, ACCEL_CONFIG = 0x19, 0x1A, 0x1B, 0x1C
INT_PIN_CFG, INT_ENABLE, INT_STATUS = 0x37, 0x38, 0x3A
ACCEL_XOUT_H, TEMP_OUT_H, GYRO_XOUT_H = 0x3B, 0x41, 0x43
SIGNAL_PATH_RESET, USER_CTRL, PWR_MGMT_1, PWR_MGMT_2, WHO_AM_I = 0x68, 0x6A, 0x6B, 0x6C, 0x75
SIZE = 128
RESET = {PWR_MGMT_1: 0x40, WHO_AM_I: 0x68}
"""Nonzero register values after a reset (section 3)."""
READ_ONLY = (*range(INT_STATUS, 0x61), WHO_AM_I)

ACCEL_PER_G = (16384.0, 8192.0, 4096.0, 2048.0)
"""LSB per g for AFS_SEL 0 to 3, with ranges of 2, 4, 8 and 16 g (section 4.17)."""
GYRO_PER_DEG_S = (131.0, 65.5, 32.8, 16.4)
"""LSB per deg/s for FS_SEL 0 to 3, with ranges of 250, 500, 1000 and 2000 deg/s (section 4.19)."""
TEMP_PER_DEGC, TEMP_ZERO = 340.0, 36.53
"""LSB per degC, and the temperature that reads as 0, degC (section 4.18)."""

_DATA_READY = 0x01
_ACTIVE_LOW, _LATCHED, _ANY_READ_CLEARS = 0x80, 0x20, 0x10
_DEVICE_RESET, _SLEEP, _TEMP_OFF = 0x80, 0x40, 0x08
_PULSE_NS = 50_000
"""Length of an unlatched pulse at the pin INT (section 4.15)."""
_AXES = "xyz"


class Mpu6050(I2cDevice):
    """The MPU-6050, which takes samples at the rate that its registers set.

    A measurement outside the range saturates. A transfer reads one consistent sample, because
    measurements do not change during a transfer.
    """

    address = 0x68
    addresses = (0x68, 0x69)  # selected by the pin AD0
    outputs = ("int",)
    quantities = (
        *(Quantity(f"accel_{a}", "g", float(a == "z"), "specific force") for a in _AXES),
        *(Quantity(f"gyro_{a}", "deg/s", 0.0, "rate of rotation") for a in _AXES),
        Quantity("temperature", "degC", 25.0),
    )

    def __init__(self, options: Mapping[str, float] | None = None) -> None:
        super().__init__(options)
        self._now = 0
        self._reset()

    def _reset(self) -> None:
        self._registers = bytearray(SIZE)
        for register, value in RESET.items():
            self._registers[register] = value
        self._fresh = bytes(14)
        self._pointer, self._awaits_pointer, self._busy = 0, False, False
        self._begun, self._samples, self._ready_ns = self._now, 0, -_PULSE_NS

    @property
    def _asleep(self) -> bool:
        return bool(self._registers[PWR_MGMT_1] & _SLEEP)

    @property
    def sample_ns(self) -> int:
        """Sample period (ns): the period of the gyroscope times 1 + SMPLRT_DIV."""
        hz = 8000 if self._registers[CONFIG] & 7 in (0, 7) else 1000
        return NS_PER_S // hz * (1 + self._registers[SMPLRT_DIV])

    def advance(self, ns: int) -> None:
        self._now = ns
        if self._asleep:
            return
        samples = (ns - self._begun) // self.sample_ns
        if samples > self._samples:
            self._samples = samples
            self._sample()
            if self._registers[INT_ENABLE] & _DATA_READY:
                self._registers[INT_STATUS] |= _DATA_READY
                self._ready_ns = self._begun + samples * self.sample_ns
        if not self._busy:
            self._registers[ACCEL_XOUT_H : ACCEL_XOUT_H + 14] = self._fresh

    def _sample(self) -> None:
        registers = self._registers
        accel = ACCEL_PER_G[registers[ACCEL_CONFIG] >> 3 & 3]
        gyro = GYRO_PER_DEG_S[registers[GYRO_CONFIG] >> 3 & 3]
        standby, old = registers[PWR_MGMT_2], self._fresh
        words = []
        for n, axis in enumerate(_AXES):
            on = not standby >> 5 - n & 1
            words.append(_word(self.values[f"accel_{axis}"] * accel) if on else old[2 * n :][:2])
        warm = (self.values["temperature"] - TEMP_ZERO) * TEMP_PER_DEGC
        words.append(old[6:8] if registers[PWR_MGMT_1] & _TEMP_OFF else _word(warm))
        for n, axis in enumerate(_AXES):
            on = not standby >> 2 - n & 1
            words.append(_word(self.values[f"gyro_{axis}"] * gyro) if on else old[8 + 2 * n :][:2])
        self._fresh = b"".join(words)

    # The pin INT.
    def due_ns(self) -> int | None:
        if self._asleep or not self._registers[INT_ENABLE] & _DATA_READY:
            return None
        due = self._begun + (self._samples + 1) * self.sample_ns
        ends = self._ready_ns + _PULSE_NS
        return ends if self._now < ends < due else due

    def level(self, output: str) -> bool:  # noqa: ARG002
        how, enabled = self._registers[INT_PIN_CFG], self._registers[INT_ENABLE] & _DATA_READY
        if how & _LATCHED:
            active = bool(self._registers[INT_STATUS] & enabled)
        else:
            active = bool(enabled) and 0 <= self._now - self._ready_ns < _PULSE_NS
        return active != bool(how & _ACTIVE_LOW)

    # The bus.
    def start(self, read: bool) -> bool:
        self._awaits_pointer, self._busy = not read, True
        return True

    def write(self, byte: int) -> bool:
        if self._awaits_pointer:
            self._pointer, self._awaits_pointer = byte & SIZE - 1, False
            return True
        register, self._pointer = self._pointer, self._pointer + 1 & SIZE - 1
        if register in READ_ONLY:
            return True
        restarts = register in (SMPLRT_DIV, CONFIG) or (
            register == PWR_MGMT_1 and self._registers[register] & ~byte & _SLEEP
        )
        self._registers[register] = byte
        if register == PWR_MGMT_1 and byte & _DEVICE_RESET:
            self._reset()
        elif restarts:
            self._begun, self._samples = self._now, 0
        return True

    def read(self) -> int:
        register, self._pointer = self._pointer, self._pointer + 1 & SIZE - 1
        value = self._registers[register]
        if register == INT_STATUS or self._registers[INT_PIN_CFG] & _ANY_READ_CLEARS:
            self._registers[INT_STATUS] = 0
        return value

    def stop(self) -> None:
        self._busy = False


def _word(value: float) -> bytes:
    return min(max(round(value), -32768), 32767).to_bytes(2, "big", signed=True)

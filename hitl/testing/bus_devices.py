"""Check that a simulated bus device obeys the rules for bus devices."""

from __future__ import annotations

import random
from collections.abc import Callable

from hitl.bus_devices import DEVICES, KINDS
from hitl.bus_devices.device import BusDevice, I2cDevice, SpiDevice
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.signals import Signal

_GENERAL = range(0x08, 0x78)
_OPERATIONS, _STOPS = 400, 7
_STEP_NS = 300_000
_DUES = 50


def check_bus_device(name: str, made: type[BusDevice]) -> None:
    """Check a class of bus devices with the registered name ``name``.

    The device receives random operations and values. Raises :class:`AssertionError` with the rule
    that the device breaks.
    """
    assert DEVICES.get(name) is made, (
        f"bus device {name!r} is not registered; see docs/bus-devices.md"
    )
    _check_class(made)
    _check_options(made)
    _check_values(made)
    for seed in range(5):
        once, again, often = (_answers(made, seed, stops) for stops in (0, 0, _STOPS))
        assert once == again, "two devices gave different answers to equal operations"
        assert once == often, (
            "the answers depend on how often advance() is called; compute from the time alone"
        )
    _check_dues(made)


def _check_class(made: type[BusDevice]) -> None:
    assert made.bus in KINDS, f"bus = {made.bus!r}; expected one of {', '.join(KINDS)}"
    assert issubclass(made, KINDS[made.bus]), (
        f"a device of {made.bus} must derive from {KINDS[made.bus].__name__}"
    )
    names = [quantity.name for quantity in made.quantities]
    assert len(set(names)) == len(names), f"two quantities have one name: {names}"
    for quantity in made.quantities:
        Signal(quantity.name, quantity.unit, initial=quantity.initial)
    if issubclass(made, I2cDevice):
        for address in made.addresses or (made.address,):
            assert address in _GENERAL, f"address 0x{address:02x}; expected 0x08 to 0x77"
        assert not made.addresses or made.address in made.addresses, (
            f"address 0x{made.address:02x} is not one of addresses"
        )


def _check_options(made: type[BusDevice]) -> None:
    assert made(dict(made.options)).option == dict(made.options), "the options are not kept"
    try:
        made({"no such option": 1.0})
    except ScenarioError:
        return
    raise AssertionError(
        "the device accepts an unknown option; raise ScenarioError, as BusDevice.__init__ does"
    )


def _check_values(made: type[BusDevice]) -> None:
    for quantity in made.quantities:
        device = made()
        assert device.values[quantity.name] == quantity.initial, f"{quantity.name}: wrong initial"
        device.set(quantity.name, quantity.initial)
        try:
            device.set(quantity.name, float("nan"))
        except ControllerError:
            continue
        raise AssertionError(
            f"the device accepts {quantity.name} = nan; raise ControllerError, as BusDevice.set "
            "does"
        )


def _answers(made: type[BusDevice], seed: int, stops: int) -> list[object]:
    draw, device, now = random.Random(seed), made(), 0
    operate = _OPERATE[made.bus](device, draw)
    out: list[object] = []
    for _ in range(_OPERATIONS):
        step = draw.randrange(_STEP_NS)
        for k in range(1, stops + 1):
            device.advance(now + step * k // (stops + 1))
        now += step
        device.advance(now)
        if made.quantities and draw.random() < 0.2:
            quantity = draw.choice(made.quantities)
            device.set(quantity.name, draw.uniform(-3.0, 3.0))
        out += [operate(), *(_level(device, output) for output in made.outputs)]
    return out


def _i2c(device: BusDevice, draw: random.Random) -> Callable[[], object]:
    assert isinstance(device, I2cDevice)
    mode = ""

    def operate() -> object:
        nonlocal mode
        kind = draw.choice(("start", "stop", "byte", "byte", "byte"))
        byte = draw.choice((draw.randrange(256), draw.randrange(16), 0))
        if kind == "stop" or (kind == "byte" and not mode):
            if mode:
                device.stop()
            mode = ""
            return None
        if kind == "start":
            mode = draw.choice(("read", "write"))
            taken = device.start(mode == "read")
            assert isinstance(taken, bool), f"start() returned {taken!r}; expected True or False"
            mode = mode if taken else ""
            return taken
        if mode == "read":
            return _byte(device.read(), "read")
        taken = device.write(byte)
        assert isinstance(taken, bool), f"write() returned {taken!r}; expected True or False"
        return taken

    return operate


def _spi(device: BusDevice, draw: random.Random) -> Callable[[], object]:
    assert isinstance(device, SpiDevice)
    selected = False

    def operate() -> object:
        nonlocal selected
        if not selected or draw.random() < 0.2:
            device.deselect() if selected else device.select()
            selected = not selected
            return None
        byte = draw.choice((draw.randrange(256), draw.randrange(16), 0))
        return _byte(device.transfer(byte), "transfer")

    return operate


_OPERATE = {"i2c": _i2c, "spi": _spi}


def _byte(found: int, name: str) -> int:
    good = isinstance(found, int) and 0 <= found <= 255
    assert good, f"{name}() returned {found!r}; expected 0 to 255"
    return found


def _level(device: BusDevice, output: str) -> bool:
    level = device.level(output)
    assert isinstance(level, bool), f"level({output!r}) returned {level!r}; expected True or False"
    return level


def _check_dues(made: type[BusDevice]) -> None:
    device = made()
    device.advance(0)
    now = 0
    for _ in range(_DUES):
        due = device.due_ns()
        if due is None:
            return
        assert due > now, f"due_ns() returned {due} ns, which is not after {now} ns"
        now = due
        device.advance(now)

"""The Arduino Nano with the ATmega328P: an Uno with two more analog inputs."""

from __future__ import annotations

from dataclasses import replace

from hitl.boards.uno import CORE, NUMBERS, PINS, UNO

NANO = replace(
    UNO,
    name="nano",
    title="Arduino Nano",
    phrase="a Nano",
    memory=replace(UNO.memory, boot_loader=2048),  # boards with the old boot loader
    compiler=replace(
        UNO.compiler,
        defines=("-DARDUINO=10819", "-DARDUINO_AVR_NANO", "-DARDUINO_ARCH_AVR"),
        core=replace(CORE, variant="eightanaloginputs"),
    ),
    usb=((0x2341, 0x0058), (0x0403, 0x6001), (0x1A86, 0x7523)),
    pins=replace(
        PINS,
        numbers={**NUMBERS, "A6": 14, "A7": 15},  # not pins of a port: only the ADC reads them
        channels={f"A{n}": n for n in range(8)},
    ),
)

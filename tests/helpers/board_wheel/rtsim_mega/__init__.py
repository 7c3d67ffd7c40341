"""The Arduino Mega 2560, programmed in plain C without Arduino's core."""

from pathlib import Path

from hitl.boards import BoardDescription, BoardPins, Compiler, CTypes, Flasher, Line, Memory

ANALOG = {f"A{n}": 54 + n for n in range(16)}

MEGA = BoardDescription(
    name="mega",
    title="Arduino Mega 2560",
    phrase="a Mega",
    mcu="ATmega2560",
    processor="avr",
    clock_hz=16_000_000,
    types=CTypes(int_bytes=2, pointer_bytes=2, double_bytes=4),
    memory=Memory(flash=256 * 1024, ram=8192, boot_loader=8192, ram_begins=0x800200),
    compiler=Compiler(
        prefix="avr-",
        install="sudo apt install gcc-avr avr-libc",
        machine=("-mmcu=atmega2560", "-DF_CPU=16000000UL"),
        hex=("-O", "ihex", "-R", ".eeprom"),
    ),
    hal=Path(__file__).parent / "hal",
    main="mega.c",
    line=Line(baud=250_000, most_baud=250_000, samples=8, most=4096),
    flasher=Flasher(
        program="avrdude",
        arguments=(
            *("-p", "atmega2560", "-c", "wiring", "-P", "{port}", "-b", "{baud}"),
            *("-D", "-U", "flash:w:{image}:i"),
        ),
        install="sudo apt install avrdude",
    ),
    usb=((0x2341, 0x0042),),
    pins=BoardPins(
        numbers={f"D{n}": n for n in range(54)} | ANALOG,
        channels={name: number - 54 for name, number in ANALOG.items()},
        count=70,
    ),
)

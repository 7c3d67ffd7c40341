"""Compiler flags of a sketch, as in Arduino's platform.txt; its Makefile has the same flags."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

MACHINE = ("-mmcu=atmega328p", "-DF_CPU=16000000L")
ARDUINO = ("-DARDUINO=10819", "-DARDUINO_AVR_UNO", "-DARDUINO_ARCH_AVR")
FLAGS = (
    "-Os", "-g", "-flto", "-ffunction-sections", "-fdata-sections", "-ffp-contract=off",
    "-DDECIMAL_DIG=__DECIMAL_DIG__",  # Debian's avr-libc and gcc do not agree on its name
)  # fmt: skip
C = ("-std=gnu11", "-fno-fat-lto-objects")
CPP = (
    "-std=gnu++11", "-fpermissive", "-fno-exceptions", "-fno-threadsafe-statics",
    "-Wno-error=narrowing",
)  # fmt: skip
LINK = ("-fuse-linker-plugin", "-Wl,--gc-sections")
HEX = ("-O", "ihex", "-R", ".eeprom")
CORE = "/usr/share/arduino/hardware/arduino/avr"
"""Folder of Debian's package arduino-core-avr."""
INSTALL = "sudo apt install gcc-avr avr-libc arduino-core-avr"

_MAKEFILE = """\
# {name}: `make` builds {name}.hex for an Arduino Uno, `make flash PORT=/dev/ttyACM0` writes it.
# {install}
ARDUINO ?= {core}
PORT    ?= /dev/ttyACM0
FLAGS   := {flags}
C       := {c}
CPP     := {cpp}

core    := $(sort $(wildcard $(addprefix $(ARDUINO)/cores/arduino/*,.c .cpp)))
own     := $(sort $(wildcard src/*/*.c src/*/*.cpp))
objects := $(addprefix build/,$(addsuffix .o,$(own)) {name}.ino.o)
include := -I$(ARDUINO)/cores/arduino -I$(ARDUINO)/variants/standard

{name}.hex: build/{name}.elf
\tavr-objcopy {hex} $< $@
\tavr-size -A $< | grep -E '^.(text|data|bss|noinit) '
build/{name}.elf: $(objects) build/core.a
\tavr-gcc $(FLAGS) {link} -o $@ $^ -lm
build/core.a: $(patsubst $(ARDUINO)/cores/arduino/%,build/core/%.o,$(core))
\trm -f $@
\tavr-gcc-ar rcs $@ $^
build/core/%.c.o: $(ARDUINO)/cores/arduino/%.c
\t@mkdir -p $(@D)
\tavr-gcc $(FLAGS) -w $(C) $(include) -c $< -o $@
build/core/%.cpp.o: $(ARDUINO)/cores/arduino/%.cpp
\t@mkdir -p $(@D)
\tavr-g++ $(FLAGS) -w $(CPP) $(include) -c $< -o $@
build/%.c.o: %.c $(wildcard src/*/*.h)
\t@mkdir -p $(@D)
\tavr-gcc $(FLAGS) $(C) $(include) -c $< -o $@
build/%.cpp.o: %.cpp $(wildcard src/*/*.h)
\t@mkdir -p $(@D)
\tavr-g++ $(FLAGS) $(CPP) $(include) -c $< -o $@
build/%.ino.o: %.ino $(wildcard src/*/*.h)
\t@mkdir -p $(@D)
\tavr-g++ $(FLAGS) $(CPP) $(include) -x c++ -include Arduino.h -c $< -o $@
flash: {name}.hex
\tavrdude -p atmega328p -c arduino -P $(PORT) -b 115200 -D -U flash:w:$<:i
clean:
\trm -rf build {name}.hex
.PHONY: flash clean
"""


def makefile(name: str, flags: Iterable[str]) -> str:
    """Return the Makefile of the sketch ``name``; ``flags`` are added to those of the machine."""
    return _MAKEFILE.format(
        name=name, install=INSTALL, core=CORE, flags=shlex.join([*MACHINE, *ARDUINO, *flags]),
        c=shlex.join(C), cpp=shlex.join(CPP), link=shlex.join(LINK), hex=shlex.join(HEX),
    )  # fmt: skip

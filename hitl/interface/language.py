"""The language of a controller's code, and the clock of Arduino code: keys of an interface file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hitl.interface.fields import Field, number
from hitl.interface.lines import Table

C, CPP = "c", "c++"
SKETCH = ".ino"
CPP_SUFFIXES = (".cpp", ".cc", ".cxx", ".C", SKETCH)
"""Suffixes of the sources that a C++ compiler compiles."""
AVR, EXACT = "avr", "exact"
_KEYS = ("timer", "start", "setup", "first_step")
_MOST_S = 4000.0
WRAP = 2**32
"""The number of values of a clock of 32 bits: micros() is 0 again after 4294.967296 s."""
_MOST_START_S = WRAP / 1000  # millis() is 0 again


@dataclass(frozen=True)
class ArduinoClock:
    """The clock that ``millis()`` and ``micros()`` read; all times in µs.

    The times of setup and of the first step are since the reset, and apply to SIL only.
    """

    timer: str = AVR
    """``"avr"``: ``micros()`` has steps of 4 µs and ``millis()`` of 1.024 ms, as in the core for
    AVR boards with 16 MHz; ``"exact"``: steps of 1 µs and of 1 ms."""
    setup_us: int = 0
    """Time at which the controller is initialised."""
    first_step_us: int = 10_000
    """Time of the step at the simulated time 0."""
    start_us: int = 0
    """What the clock shows at the reset, on the host and on a board, to test its wrap-around."""

    @property
    def start_ms(self) -> int:
        """What ``millis()`` shows at the reset."""
        if self.timer == AVR:
            return self.start_us // 1024 * 128 // 125
        return self.start_us // 1000


@dataclass(frozen=True)
class Language:
    """The language of a controller, and the clock of Arduino code."""

    name: str = C
    clock: ArduinoClock | None = None
    """The clock in SIL; ``None`` if the code is not Arduino code."""

    @property
    def cpp(self) -> bool:
        """True if the code around the controller is C++."""
        return self.name == CPP


def is_cpp(path: Path) -> bool:
    """Return True if a C++ compiler compiles ``path``."""
    return path.suffix in CPP_SUFFIXES


def is_sketch(path: Path) -> bool:
    """Return True if ``path`` is an Arduino sketch."""
    return path.suffix == SKETCH


def read_language(top: Table) -> Language:
    """Read the keys ``language`` and ``arduino``; raises :class:`InterfaceError` for a mistake."""
    given = top.data.get("arduino", False)
    if not isinstance(given, (bool, dict)):
        text = f"arduino = {given!r} is not valid; write arduino = true, or a table [arduino]"
        raise top.error("arduino", text)
    name = top.data.get("language", CPP if given is not False else C)
    if name not in (C, CPP):
        raise top.error("language", f'language = {name!r} is unknown; choose "c" or "c++"')
    if given is False:
        return Language(name)
    if name == C:
        raise top.error("language", 'Arduino code is C++; write language = "c++", or remove it')
    table = Table(top.lines, "arduino", given if isinstance(given, dict) else {}, _KEYS)
    return Language(name, _clock(table))


def check_sources(top: Table, language: Language, sources: tuple[Path, ...]) -> None:
    """Check that ``language`` allows ``sources``; raises :class:`InterfaceError` otherwise."""
    sketches = 0
    for element, path in enumerate(sources):
        if not is_sketch(path):
            continue
        sketches += 1
        if language.clock is None:
            text = f"{path.name} is an Arduino sketch; write arduino = true in the interface file"
            raise top.error("sources", text, element)
        if sketches > 1:
            text = f"{path.name} is a second sketch; name one .ino file, and the others as .cpp"
            raise top.error("sources", text, element)


def check_pins(top: Table, language: Language, tables: Mapping[str, Sequence[Field]]) -> None:
    """Check that only Arduino code has pins, and each pin one signal in each of ``tables``."""
    for table, fields in tables.items():
        seen: dict[str, str] = {}
        for place in filter(lambda place: place.pin, fields):
            name, text = place.signal.name, ""
            if language.clock is None:
                text = f"{name} has a pin; write arduino = true in the interface file"
            elif place.pin in seen:
                text = f"{name} and {seen[place.pin]} have the same pin; give each its own pin"
            if text:
                raise top.lines.error(table, name, text)
            seen[place.pin] = name


def sketch_entries(sources: tuple[Path, ...]) -> dict[str, str]:
    """Return the entry points of a sketch, for a table ``[code]`` that does not name them."""
    return {"initialize": "setup()", "step": "loop()"} if any(map(is_sketch, sources)) else {}


def _clock(table: Table) -> ArduinoClock:
    standard = ArduinoClock()
    timer = table.data.get("timer", AVR)
    if timer not in (AVR, EXACT):
        raise table.error("timer", f'timer = {timer!r} is unknown; choose "{AVR}" or "{EXACT}"')
    setup = _micros(table, "setup", standard.setup_us)
    first = _micros(table, "first_step", max(standard.first_step_us, setup))
    if first < setup:
        text = f"first_step = {first / 1e6:g} s is before setup = {setup / 1e6:g} s"
        raise table.error("first_step", f"{text}; give a later time")
    start = _micros(table, "start", 0, _MOST_START_S)
    return ArduinoClock(timer, setup, first, start)


def _micros(table: Table, key: str, default: int, most: float = _MOST_S) -> int:
    data: Mapping[str, object] = table.data
    if key not in data:
        return default
    try:
        value = number(data[key])
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise table.error(key, f"{key}: {error}") from None
    if not 0.0 <= value <= most:
        text = f"{key} = {value:g} is not a time in s since the reset, from 0 to {most:g}"
        hint = (
            "; to test the wrap-around of micros(), write start = 4294.9" if most == _MOST_S else ""
        )
        raise table.error(key, text + hint)
    return round(value * 1e6)

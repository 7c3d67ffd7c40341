"""Rig files: what they say, and that what is wrong in one is named with its line."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from rig_parts import RIG, changed

from hitl import firmware
from hitl.interface import InterfaceError
from hitl.protocol.codec import Codec
from hitl.rigs.diagram import svg
from hitl.rigs.file import load_rig
from rtsim.core.tag import Period

LIGHT = re.search(r"^light = .*$", RIG.read_text(encoding="utf-8"), re.M)
assert LIGHT is not None
LAMP_ROW = 'lamp = { pin = "D2", kind = "digital_in" }'


def test_the_example_is_read() -> None:
    rig = load_rig(RIG)
    assert (rig.name, rig.board, rig.baud, rig.watchdog_ms) == (
        "illumination", "board:uno", 500_000, 100
    )  # fmt: skip
    assert [(c.name, c.pin, c.kind, c.measure) for c in rig.channels] == [
        ("light", "D3", "pwm_out", ""),
        ("lamp", "D2", "digital_in", ""),
        ("lamp_on_at", "D2", "pulse_in", "rise"),
        ("lamp_off_at", "D2", "pulse_in", "fall"),
        ("switchings", "D2", "pulse_in", "count"),
    ]
    assert [f"{w.source} {w.target}" for w in rig.wires] == [
        "node.D3 switch.A0",
        "switch.D8 node.D2",
    ]
    part = rig.wires[0].low_pass
    assert part is not None
    assert part.time_constant == pytest.approx(0.01)
    assert rig.slice_ns == 200_000


def test_it_makes_an_interface_of_small_types_on_the_line() -> None:
    interface = load_rig(RIG).interface(Period.of(0.02))
    assert Codec(interface.input_fields).bytes == 1
    assert [f.signal.type for f in interface.output_fields] == [
        "bool",
        "uint32",
        "uint32",
        "uint16",
    ]
    packed, refused = Codec(interface.input_fields).pack(interface.inputs.initial({"light": 500.0}))
    assert (packed, refused) == (b"\x80", 0), "500 of 1000 lx is a duty of 127.5 / 255, to even"


def test_its_parameters_say_what_each_pin_is() -> None:
    parameters = load_rig(RIG).parameters()
    assert parameters == {
        "kinds": [3, 2] + 16 * [0],
        "safe": [0, 255] + 16 * [0],
        "pulses": [0, 255, 255, 255],
        "watchdog": 100,
    }


WRONG = [  # what is changed, into what; the line; what is said
    ("watchdog = 0.1", "wachdog = 0.1", 3, "unknown key 'wachdog'; did you mean watchdog"),
    ("watchdog = 0.1", "watchdog = 0.001", 3, "watchdog = 0.001 is not valid; write seconds"),
    ("watchdog = 0.1", "watchdog = 0.1\nhold = 1", 4, "hold = 1 is not valid; write true or false"),
    ("baud = 500000", "baud = 115200", 7, r"115200 baud is \+2.1 % off"),
    ("baud = 500000", "baud = 57600", 7, r"57600 baud is \+2.1 % off"),
    ('"board:uno"', '"bord:uno"', 6, "'bord:uno' is not a board URL"),
    ('"D3", kind', '"D33", kind', 10, "light: the I/O node has no pin 'D33'; did you mean D3"),
    ('"D3", kind', '"d3", kind', 10, "did you mean D3"),
    ('"D3", kind', '"D1", kind', 10, "D0 and D1 are the serial line"),
    ('"D3", kind', '"D9", kind', 10, "D9 cannot make PWM: its Timer 1 .*choose D3 or D11"),
    ('"pwm_out"', '"pwm_aut"', 10, "unknown kind 'pwm_aut'; did you mean pwm_out"),
    ('"pwm_out"', '"digital_in"', 10, "unknown kind 'digital_in'; did you mean digital_out"),
    ("per_duty = 1000", "per_dty = 1000", 10, "unknown key 'per_dty'; did you mean per_duty"),
    ("per_duty = 1000, ", "", 10, "per_duty is missing; write the value at a duty of 1"),
    ("per_duty = 1000", "per_duty = 0", 10, "per_duty = 0 is not valid"),
    (", safe = 1000", "", 10, "safe is missing; write the value"),
    ("safe = 1000", "safe = 1001", 10, r"safe = 1001 is outside the signal's range \[0, 1000\]"),
    ("high = 1000, safe = 1000", "safe = 1004", 10, "0 .duty cycle 0. to 1000 .duty cycle 1."),
    ('"digital_in"', '"digitl_in"', 13, "lamp: unknown kind 'digitl_in'; did you mean digital_in"),
    ('"digital_in"', '"adc_in", per_volt = 1', 13, "lamp: D2 has no ADC channel; choose A0"),
    ('"digital_in"', '"digital_in", measure = "rise"', 13, "measure applies only to pulse_in"),
    ('"D2", kind = "digital_in"', '"D3", kind = "digital_in"', 13, "D3 is already used as pwm"),
    ('"digital_in"', '"digital_in", pull_up = true', 14, "D2 is already used as digital_in"),
    ('"rise"', '"rize"', 14, "unknown measure 'rize'; did you mean rise"),
    (LAMP_ROW, LAMP_ROW.replace("lamp", "light"), 13, "light is also in .to_pins."),
    ('"illumination.hex"', '"none.hex"', 19, "there is no file .*none.hex"),
    ("[devices.switch]", "[devices.node]", 18, "name node is reserved for the I/O node"),
    ("[devices.switch]", "[devices.swich]", 23, "wires 1: unknown board 'switch'; did"),
    ('"node.D3"', '"node.D4"', 21, "D4 has no signal in \\[to_pins\\]; D3 has a"),
    ('"switch.A0"', '"switch.D4"', 21, "D4 has no ADC channel; a low pass must end at A0"),
    ('"switch.A0"', '"A0"', 23, "to = 'A0' is not a pin of a board; write to"),
    ("capacitance = 1e-6  # F", "", 24, "only resistance is given; a low pass needs both"),
    ("10e3", "0", 24, "both must be finite and > 0"),
    ('"switch.D8"', '"node.D3"', 29, "a wire must connect two boards"),
    ('to = "node.D2"', 'to = "node.D5"', 27, "D5 has no signal in \\[from_pins\\]; D2 has a"),
    ("slice = 2e-4", "slice = 1", 32, "slice = 1 is not valid; write seconds from 1e-05 to 0.01"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line", "said"), WRONG)
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, said: str
) -> None:
    path = changed(tmp_path, old, new)
    with pytest.raises(InterfaceError, match=said) as caught:
        load_rig(path)
    assert str(caught.value).startswith(f"{path}:{line}: "), str(caught.value)


def test_pwm_on_a_bare_wire_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path, "resistance = 10e3  # ohm\ncapacitance = 1e-6  # F\n", "")
    with pytest.raises(InterfaceError, match=r"PWM at node.D3 needs a low pass"):
        load_rig(path)


def test_five_pins_are_too_many_to_stamp(tmp_path: Path) -> None:
    rows = "".join(
        f'p{n} = {{ pin = "D{n}", kind = "pulse_in", measure = "count" }}\n' for n in range(4, 8)
    )
    path = changed(tmp_path, LAMP_ROW, f"{LAMP_ROW}\n{rows}")
    with pytest.raises(InterfaceError, match=r"the I/O node can time the edges of at most 4 pins"):
        load_rig(path)


@pytest.mark.parametrize("text", ["", "name = 1", "[to_pins]\nx = 1", "\0", "wires = 3"])
def test_no_text_makes_it_fail_otherwise(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rig.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InterfaceError, match=re.escape(str(path))):
        load_rig(path)
    with pytest.raises(InterfaceError, match="give the path of a rig file"):
        load_rig(tmp_path / "none.toml")


def test_the_picture_names_every_signal_and_part() -> None:
    drawing = svg(load_rig(RIG))
    for text in (
        "light [lx]",
        "lamp_on_at [s]",
        "PWM out",
        "D3",
        "A0",
        "D8",
        "RC = 10 ms",
        "switch",
    ):
        assert f">{text}" in drawing or text in drawing, text


IMAGES = Path(firmware.__file__).parent / "images"
NO_IMAGES = [  # the contents of the firmware file, and what is said
    (b"", "illumination.hex is empty"),
    (b"\x7fELF\x01\x01" + bytes(10) + b"\x02\x00\x28\x00", "is an ELF file for ARM"),
    (b"UF2\n", "is a UF2 file"),
    (b"void setup() {}", "is not Intel HEX"),
    ((IMAGES / "io_node_500000.hex").read_bytes()[:4000], "is truncated"),
    ((IMAGES / "mega2560_io_node_500000.hex").read_bytes(), "vectors of a Mega 2560"),
    ((IMAGES / "pico_pid_single_2000000.hex").read_bytes(), "the flash of a Pico"),
]


@pytest.mark.parametrize(("data", "said"), NO_IMAGES)
def test_a_wrong_image_is_an_error_with_the_line_of_its_device(
    data: bytes, said: str, tmp_path: Path
) -> None:
    rig = changed(tmp_path, "settle = 0.1", "settle = 0.2")
    (tmp_path / "illumination.hex").write_bytes(data)
    with pytest.raises(InterfaceError, match=rf"illumination\.toml:19: devices\.switch: .*{said}"):
        load_rig(rig)


def test_a_sketch_in_place_of_an_image_is_compiled_when_it_is_needed(tmp_path: Path) -> None:
    rig = load_rig(_with_sketch(tmp_path, "void setup() {}\nvoid loop() { wrong(); }\n"))
    if shutil.which("avr-gcc") is None:
        said = r"without avr-gcc.*type: sudo apt install gcc-avr"
    else:
        said = r"switch\.ino:2:.*'wrong' was not declared"
    with pytest.raises(
        InterfaceError, match=rf"(?s)illumination\.toml:19: devices\.switch: .*{said}"
    ):
        rig.images()


def _with_sketch(folder: Path, text: str) -> Path:
    (folder / "switch.ino").write_text(text)
    return changed(folder, '"illumination.hex"', '"switch.ino"')

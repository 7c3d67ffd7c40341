"""The I/O node on a Nano and a Mega: the same pins by name, and what they can do there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulated_board_parts import need
from io_node_parts import MS, node
from rig_parts import changed

from hitl.boards.known import board_named
from hitl.interface import InterfaceError
from hitl.rigs.controller import RigController
from hitl.rigs.file import load_rig
from hitl.rigs.rig import PINS, NodeKind
from rtsim.core.tag import Period, Tag

OUT, PWM, IN, ADC = (
    NodeKind.DIGITAL_OUT, NodeKind.PWM_OUT, NodeKind.DIGITAL_IN, NodeKind.ADC_IN,
)  # fmt: skip
each = pytest.mark.parametrize("name", ["nano", "mega2560"])


@pytest.mark.long
def test_every_pin_of_a_mega_is_driven_and_read() -> None:
    with node(name="mega2560") as it:
        it.start(dict.fromkeys(PINS, OUT))
        for pin in PINS:
            it.step(**{pin: 1})
            assert [p for p in PINS if it.board.pins.read(p)] == [pin]
        it.start(dict.fromkeys(PINS, IN))
        for pin in PINS:
            it.board.pins.write(pin, True)
            levels = it.step()["levels"]
            assert levels[0] | levels[1] << 6 | levels[2] << 12 == 1 << PINS.index(pin)
            it.board.pins.write(pin, False)


@each
def test_duties_voltages_edges_and_silence(name: str) -> None:
    io = board_named(name).io_node
    assert io is not None
    first, second = io.pwm
    with node(name=name) as it:
        kinds = {first: PWM, second: PWM, "D4": OUT, "D12": IN, "A2": ADC, "A5": ADC}
        it.start(kinds, {first: 51, "D4": 1}, pulses=("D12",), watchdog=20)
        assert (it.level(first), it.level(second), it.level("D4")) == (0.2, 0.0, True)
        it.board.pins.set_volts("A2", 2.5)
        it.board.pins.set_volts("A5", 1.234)
        before = it.step(**{first: 204, second: 255})
        assert (it.level(first), it.level(second), it.level("D4")) == (0.8, 1.0, False)
        assert before["analog"] == [0, 0, 512, 0, 0, 252]
        edges = []
        for level in (True, False):
            it.board.advance(2 * MS)
            it.board.pins.write("D12", level)
            edges.append(it.board.cycles)
        it.board.advance(MS)
        begun = it.board.cycles
        after = it.step()
        assert (after["rises"][0], after["falls"][0]) == (1, 1)
        assert after["width"][0] == pytest.approx(edges[1] - edges[0], abs=80)
        age = (after["now"][0] - after["rise"][0]) % 2**32
        assert 0 < age - (begun - edges[0]) < MS, "the request takes 0.68 ms on the line"
        it.board.advance(25 * MS)
        assert (it.level(first), it.level("D4")) == (0.2, True)
        assert it.step()["silences"] == [1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "light", "lamp"), [("nano", "D3", "D2"), ("mega2560", "D9", "D10")]
)
def test_the_example_rig_at_another_node(tmp_path: Path, name: str, light: str, lamp: str) -> None:
    """The lamp's switch sees 200 lx, and 0.2 s later it has switched the lamp on."""
    need("avr8js")
    path = changed(tmp_path, '"board:uno"', f'"board:{name}"')
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace('"D3"', f'"{light}"').replace("node.D3", f"node.{light}")
        .replace('"D2"', f'"{lamp}"').replace("node.D2", f"node.{lamp}"), encoding="utf-8",
    )  # fmt: skip
    rig = load_rig(path)
    controller = RigController(rig, Period.of(0.02)).fresh()
    try:
        answers = []
        for tick in range(5):
            tag = Tag(tick * 20_000_000)
            controller.send(tag, np.array([200.0]))
            found = controller.receive(tag, 0.02)
            assert found is not None
            answers.append(dict(zip(controller.outputs.names, found.tolist(), strict=True)))
    finally:
        controller.close()
    assert answers[0]["lamp"] == 0.0
    assert answers[-1]["lamp"] == 1.0
    # from 1000 lx (safe) to 200 lx: 293 lx after 21.5 ms with RC = 10 ms; delays of up to 2.5 ms
    assert 0.0222 < answers[-1]["lamp_on_at"] < 0.0247


WRONG = [
    (
        '"D3", kind',
        '"D3", kind',
        "D3 cannot make PWM: the I/O node does not use Timer 3; choose D9",
    ),
    ('"D3", kind', '"D11", kind', "D11 cannot make PWM: its Timer 1 times edges"),
]


@pytest.mark.parametrize(("old", "new", "said"), WRONG)
def test_what_a_mega_cannot_do(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = changed(tmp_path, '"board:uno"', '"board:mega2560"')
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(InterfaceError, match=said):
        load_rig(path)


def test_edges_that_a_mega_cannot_stamp(tmp_path: Path) -> None:
    path = changed(tmp_path, '"board:uno"', '"board:mega2560"')
    text = path.read_text(encoding="utf-8").replace('"D3", kind', '"D9", kind')
    path.write_text(text, encoding="utf-8")
    said = "lamp_on_at: D2 gets no time stamps on this board; choose D10 to D13"
    with pytest.raises(InterfaceError, match=said):
        load_rig(path)

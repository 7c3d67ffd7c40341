"""The example rig, all of it emulated: what the device decides and when, against the equations."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_parts import Flown, Told
from emulated_board_parts import need, on_each
from firmware_parts import with_avr_gcc
from rig_parts import EXAMPLE, RIG, changed

from hitl.rigs.controller import RigController, delay_ns
from hitl.rigs.file import load_rig
from hitl.rigs.rig import CLOCK_HZ, Rig, RigEnd
from rtsim.components.controller import PythonController
from rtsim.core.errors import ControllerError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.tag import NS_PER_S, Period, Tag
from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.description import fault_of
from rtsim.engine.faults.kind import Present
from rtsim.engine.faults.line_kinds import LineFaults
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.standard_components import ControllerComponent

PERIOD = Period.of(0.02)
RC = 0.01
DARK, LIGHT = 300 * 5 / 1024, 400 * 5 / 1024
"""V at the device's ADC: the thresholds of illumination.c."""
REQUEST = 34


@dataclass
class ByHand:
    """A rig driven by hand: what was at the pins, in s of the run."""

    volts: list[tuple[float, float]] = field(default_factory=list)
    """At switch.A0."""
    edges: list[tuple[float, bool]] = field(default_factory=list)
    """That arrive at node.D2."""
    answers: list[list[float]] = field(default_factory=list)
    exchange_ns: list[int] = field(default_factory=list)
    repeated: int = 0


def flown(
    rig: Rig, light: Callable[[float], float], ticks: int, fault: dict[str, Any] | None = None
) -> ByHand:
    """``light`` lx at the tick's time (s), for so many ticks; ``fault`` is at the node's line."""
    out = ByHand()
    told: list[tuple[int, RigEnd, float]] = []
    controller = RigController(
        rig, PERIOD, probe=lambda at, end, v: told.append((at, end, v))
    ).fresh()
    present = Present()
    try:
        assert controller.boards is not None
        origin = controller.boards.cycles
        if fault is not None:
            stream = RandomStreams(0).stream("fault/f")
            controller.spoil(LineFaults([Activity(fault_of(fault), stream)], present))
        for k in range(ticks):
            tag = Tag(PERIOD.tick(k))
            controller.advance(tag)
            present.ns = tag.ns
            controller.send(tag, np.array([light(tag.seconds)]))
            answer = controller.receive(tag, 0.01)
            assert answer is not None
            out.answers.append(answer.tolist())
        out.exchange_ns = controller.node.exchange_ns.tolist()
        out.repeated = controller.repeated
    finally:
        controller.close()
    for at, end, volts in told:
        seconds = (at - origin) / CLOCK_HZ
        if str(end) == "switch.A0":
            out.volts.append((seconds, volts))
        elif seconds > 0:
            out.edges.append((seconds, volts > 0))
    return out


def settled(light: Callable[[float], float], ticks: int, driven: float) -> Callable[[float], float]:
    """V at the device by the equation, ``driven`` s after each tick another duty."""
    pieces: list[tuple[float, float, float]] = []
    volts = 5.0  # the safe value: all light
    for k in range(ticks):
        at = k * 0.02 + driven
        target = 5.0 * round(light(k * 0.02) * 0.255) / 255
        if pieces:
            since, began, held = pieces[-1]
            volts = held + (began - held) * math.exp(-(at - since) / RC)
        pieces.append((at, volts, target))

    def voltage(t: float) -> float:
        since, began, held = [p for p in pieces if p[0] <= t][-1]
        return held + (began - held) * math.exp(-(t - since) / RC)

    return voltage


def shutter(t: float) -> float:
    """Closed at 0.1 s, open at 0.2 s, half at 0.3 s."""
    return 1000.0 if t < 0.1 else 100.0 if t < 0.2 else 900.0 if t < 0.3 else 340.0


@on_each
def test_voltage_thresholds_and_times_agree_with_the_equations(
    tmp_path: Path, backend: str
) -> None:
    need(backend)
    board = f'"board:uno?backend={backend}"'
    path = changed(tmp_path, '"board:uno"', board)
    path.write_text(
        path.read_text().replace("[devices.switch]", f"[devices.switch]\nboard = {board}")
    )
    rig = load_rig(path)
    ticks = 20
    run = flown(rig, shutter, ticks)
    driven = delay_ns(REQUEST, rig.baud) / NS_PER_S
    voltage = settled(shutter, ticks, driven)
    compared = [(t, v, voltage(t)) for t, v in run.volts if driven < t < (ticks - 1) * 0.02]
    assert len(compared) > 1500
    # the duty is seen at the end of its slice: late by 200 us at most, of a step of 4.5 V
    assert max(abs(v - expected) for _, v, expected in compared) < 4.5 * 2e-4 / RC
    dark = driven + 0.1 + RC * math.log((5.0 - 0.5) / (DARK - 0.5))
    bright = driven + 0.2 + RC * math.log((4.5 - 0.5) / (4.5 - LIGHT))
    (on, up), (off, down) = run.edges
    assert (up, down) == (True, False)
    # a sample each ms, a conversion of 104 us; slices: the duty, the voltage, the wire
    for switched, crossed in ((on, dark), (off, bright)):
        assert 0.0 < switched - crossed < 0.001 + 104e-6 + 3 * 2e-4, (switched, crossed)
    lamp, on_at, off_at, switchings = run.answers[-1]
    assert lamp == 0.0, "340 lx are between the thresholds: it stays as it was"
    assert switchings == 2.0
    assert on_at == pytest.approx(on, abs=25e-6), "as the node stamped it"
    assert off_at == pytest.approx(off, abs=25e-6)


@pytest.mark.sample(1)
@pytest.mark.parametrize("end", ["to_board", "from_board"])
def test_a_request_that_was_repeated_is_stamped_when_it_was_taken(end: str) -> None:
    """Of a lost request the last copy was, of a lost answer the first: edges keep their times."""
    need("avr8js")
    lost = {"name": "f", "where": f"switch.{end}", "kind": "truncation", "at": 0.14, "count": 1}

    def early(t: float) -> float:
        """Dark from the tick at 0.12 s on: the edge is told with the answer of 0.14 s."""
        return 1000.0 if t < 0.115 else 100.0

    run = flown(load_rig(RIG), early, 10, lost)
    assert run.repeated == 1
    ((on, up),) = run.edges
    assert up
    _, on_at, _, switchings = run.answers[-1]
    assert switchings == 1.0
    assert on_at == pytest.approx(on, abs=13e-6), "a byte is 20 us"


@pytest.mark.long
def test_a_run_is_the_same_to_the_cycle() -> None:
    need("avr8js")
    first, second = (flown(load_rig(RIG), shutter, 8) for _ in range(2))
    assert first == second
    assert len(first.volts) > 700


def test_the_device_under_test_is_what_decides(tmp_path: Path) -> None:
    """With no device at the wires nothing switches: the answers come from the pins."""
    need("avr8js")
    text = RIG.read_text(encoding="utf-8")
    path = tmp_path / "bare.toml"
    path.write_text(text[: text.index("[devices.switch]")], encoding="utf-8")
    run = flown(load_rig(path), shutter, 12)
    assert run.answers == 12 * [[0.0, -1.0, -1.0, 0.0]]


def test_signals_are_those_of_the_design() -> None:
    rig = RigController(load_rig(RIG), PERIOD)
    scenario = load_scenario(str(EXAMPLE / "illumination.py"), {})
    part = scenario.component("switch")
    assert isinstance(part, ControllerComponent)
    assert isinstance(part.controller, PythonController)
    assert rig.inputs.names == part.controller.inputs.names
    assert rig.outputs.names == part.controller.outputs.names
    scenario.replace_controller("switch", rig)


@pytest.mark.long
@pytest.mark.parametrize("hold", [False, True])
def test_a_free_running_rig_cannot_be_made_to_wait(
    monkeypatch: pytest.MonkeyPatch, hold: bool
) -> None:
    """Unless what is at its pins can stand still."""
    need("avr8js")
    monkeypatch.setattr(Rig, "free_running", True)
    scenario = load_scenario(str(EXAMPLE / "illumination.py"), {"until": "0.06"})
    scenario.replace_controller("switch", RigController(replace(load_rig(RIG), hold=hold), PERIOD))
    told: list[Told] = [
        {"kind": "pause"},
        {"kind": "rate", "rate": 0.5},
        {"kind": "rate", "rate": 1.0},
    ]
    flown = Flown(scenario, {20_000_000: told})
    refused = [wrong for _, wrong, _ in flown.answers[:3]]
    assert flown.error is None
    if hold:
        assert refused == ["", "", ""]
        return
    for what, wrong in zip(("pause", "a rate of 0.5"), refused, strict=False):
        assert wrong.startswith(f"{what} is refused: switch runs on its own clock"), wrong
    assert refused[2] == ""


def test_what_has_no_raw_value_ends_the_run_and_names_the_pin(tmp_path: Path) -> None:
    rig = load_rig(changed(tmp_path, ', overflow = "saturate"', ""))
    controller = RigController(rig, PERIOD)
    with pytest.raises(ControllerError, match=r"light = 1200 lx is outside its limits at D3"):
        controller.send(Tag(0), np.array([1200.0]))


@with_avr_gcc
def test_the_devices_image_is_that_of_its_source(tmp_path: Path) -> None:
    """Of another version of avr-gcc it need not be the same bytes."""
    folder = Path(__file__).parents[3] / "firmware" / "examples" / "illumination"
    subprocess.run(["make", "-C", str(folder), f"OUT={tmp_path}"], check=True, capture_output=True)
    shutil.copyfile(RIG, tmp_path / RIG.name)
    built = flown(load_rig(tmp_path / RIG.name), shutter, 8)
    shipped = flown(load_rig(RIG), shutter, 8)
    assert built.answers == shipped.answers
    assert [up for _, up in built.edges] == [up for _, up in shipped.edges] == [True]

"""CAN buses in a simulation: bits, arbitration, error frames, and runs that share a bus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frame_parts import frame_files
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim.components.can_bus import (
    CanBus,
    arbitration,
    crc15,
    frame_bits,
    stuff_bits,
    stuffed_part,
    worst_frame_bits,
)
from rtsim.components.controller import PythonController
from rtsim.components.frames import FrameError, read_frames
from rtsim.components.latency import Fixed, Loss
from rtsim.components.medium import MOST_WAITING, MediumQueue, Parcel
from rtsim.core.errors import LatencyError, ModelError, ScenarioError, UnknownName
from rtsim.core.signals import Signals
from rtsim.core.tag import Tag
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.linear import open_loop
from rtsim.models.unstable import scenario as unstable
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.prepared import prepare
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of
from rtsim.testing.latency import check_latency

US = 1000
BIT = 2 * US
"""One bit at 500 kbit/s, ns."""


def test_the_crc_is_the_one_of_can() -> None:
    """CRC-15/CAN of "123456789" is 0x059e (catalogue of parametrised CRC algorithms, G. Cook)."""
    assert crc15(int.from_bytes(b"123456789", "big"), 72) == 0x059E


def _sent(identifier: int, extended: bool, data: bytes) -> str:
    """Return the stuffed bits of a frame as text, written down field by field (ISO 11898-1)."""
    size = f"{len(data):04b}"
    payload = "".join(f"{byte:08b}" for byte in data)
    if extended:
        bits = f"{identifier:029b}"
        head = "0" + bits[:11] + "1" + "1" + bits[11:] + "0" + "00"
    else:
        head = "0" + f"{identifier:011b}" + "0" + "0" + "0"
    plain = head + size + payload
    register = [0] * 15
    for bit in plain:  # polynomial x15 + x14 + x10 + x8 + x7 + x4 + x3 + 1
        carry = register[0] ^ int(bit)
        register = [*register[1:], 0]
        for power in (14, 10, 8, 7, 4, 3, 0):
            register[14 - power] ^= carry
    plain += "".join(map(str, register))
    out = ""
    for bit in plain:
        out += bit
        if out[-5:] in ("00000", "11111"):
            out += "1" if bit == "0" else "0"
    return out


@given(
    identifier=st.integers(0, 2**29 - 1), extended=st.booleans(),
    data=st.one_of(st.binary(max_size=8), st.sampled_from([bytes(8), b"\xff" * 8])),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_a_frame_has_the_bits_of_its_contents(identifier: int, extended: bool, data: bytes) -> None:
    identifier %= 2**29 if extended else 2**11
    sent = _sent(identifier, extended, data)
    bits, count = stuffed_part(identifier, extended, data)
    assert count + stuff_bits(bits, count) == len(sent)
    assert frame_bits(identifier, extended, data) == len(sent) + 10
    assert frame_bits(identifier, extended, data) <= worst_frame_bits(extended, len(data))


def test_the_worst_frame_exists() -> None:
    """55 + 10 s bits with 11-bit and 80 + 10 s with 29-bit identifiers, 3 of them intermission."""
    assert [worst_frame_bits(False, s) + 3 for s in (0, 8)] == [55, 135]
    assert [worst_frame_bits(True, s) + 3 for s in (0, 8)] == [80, 160]
    alternating = int("1" * 5 + "00001111" * 3, 2)  # each stuff bit begins the next five
    assert stuff_bits(alternating, 29) == (29 - 1) // 4


def test_the_bits_that_differ_first_decide() -> None:
    order = [(0x0FF, False), (0x100, False), (0x100 << 18, True), (0x100 << 18 | 5, True)]
    keys = [arbitration(*one) for one in [*order, (0x101, False)]]
    assert keys == sorted(keys)


def car(bus: CanBus, **transports: Any) -> Scenario:
    """Sensors that all sample at 0, 10 ms, ...; each has the transport of its name."""
    out = Scenario("car", until=0.025)
    out.source("car", Signals("x [1]"), {"x": 1.0})
    for name, transport in transports.items():
        out.sensor(name, {"x": "car.x"}, period=0.01, transport=transport)
    assert bus.name
    return out


def arrivals(recording: Recording, name: str) -> list[int]:
    return [int(ns) for ns in recording.track(f"messages/{name}").integer("arrival")]


@pytest.mark.rule("shared-medium")
def test_frames_of_one_instant_go_by_their_identifiers() -> None:
    """Also if the message of low priority is sent first, and if its sender is named first."""
    bus = CanBus(500_000, stuffing="worst")
    scenario = car(bus, a=bus.frame(0x300), b=bus.frame(0x100, length=1), c=bus.frame(0x200))
    recording = trace_of(scenario)
    assert arrivals(recording, "b") == [62 * BIT + k for k in (0, 10_000_000, 20_000_000)]
    assert arrivals(recording, "c")[0] == (65 + 132) * BIT
    assert arrivals(recording, "a")[0] == (65 + 135 + 132) * BIT
    stamps = recording.track("messages/a")
    assert stamps.integer("initiated").tolist() == [0, 10_000_000, 20_000_000]
    assert stamps.integer("completed").tolist() == [0, 10_000_000, 20_000_000]


@pytest.mark.rule("shared-medium")
def test_frames_of_later_microsteps_compete_too() -> None:
    """The controller reacts to a message without delay, one microstep after the sensors."""
    bus = CanBus(500_000, stuffing="worst")
    scenario = car(bus, low=bus.frame(0x700), fast=Fixed(0))

    def law(t: float, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
        y[0] = u[0]

    controller = PythonController(law, Signals("x [1]"), Signals("y [1]"))
    transport = bus.frame(0x001)
    wires = {"x": "fast.x"}
    scenario.controller("high", controller, on=["fast"], inputs=wires, transport=transport)
    recording = trace_of(scenario)
    assert recording.track("messages/high").integer("completed_step").tolist() == [1, 1, 1]
    assert arrivals(recording, "high")[0] == 132 * BIT
    assert arrivals(recording, "low")[0] == (135 + 132) * BIT


def test_buses_of_different_names_do_not_wait_for_each_other() -> None:
    one, two = CanBus(500_000, "one", "worst"), CanBus(250_000, "two", "worst")
    recording = trace_of(car(one, a=one.frame(0x100), b=two.frame(0x100)))
    assert arrivals(recording, "a")[0] == 132 * BIT
    assert arrivals(recording, "b")[0] == 132 * 2 * BIT


@pytest.mark.rule("shared-medium")
def test_a_frame_that_has_begun_is_not_interrupted() -> None:
    bus = CanBus(500_000, stuffing="worst")
    scenario = car(bus, low=bus.frame(0x700))
    scenario.sensor("high", {"x": "car.x"}, period=0.01, offset="1e-9", transport=bus.frame(0x001))
    recording = trace_of(scenario)
    assert arrivals(recording, "low")[0] == 132 * BIT
    assert arrivals(recording, "high")[0] == (135 + 132) * BIT


def test_a_codec_rounds_to_the_bits_of_the_frame(tmp_path: Path) -> None:
    dbc, _ = frame_files(tmp_path)
    bus, engine = CanBus(500_000), read_frames(dbc)["Engine"]
    out = Scenario("car", until=0.005)
    out.source("car", Signals("n [rpm]", "m [N m]"), {"n": 1234.56, "m": -33.3})
    transport = bus.frame(engine, signals={"n": "speed", "m": "torque"})
    check_latency(transport)
    out.sensor("engine", {"n": "car.n", "m": "car.m"}, period=0.01, transport=transport)
    recording = trace_of(out)
    assert recording["messages/engine.n"].tolist() == [1234.5]
    assert recording["messages/engine.m"].tolist() == [-33.5]
    data = engine.encode(np.array([1234.5, -33.5, -40, 0]))
    assert arrivals(recording, "engine") == [frame_bits(256, False, data) * BIT]
    assert "Engine, car.dbc sha256" in recording.header["scenario"]["parts"]["engine"]["transport"]
    wild = out.copy()
    wild.set("car.n", 1e6)
    with pytest.raises(FrameError, match=r"Engine.speed = 1e\+06 is outside 0 to 16383.8"):
        trace_of(wild)


def test_a_signal_of_another_page_keeps_its_last_value(tmp_path: Path) -> None:
    dbc, _ = frame_files(tmp_path)
    out = Scenario("pages", until=0.025)
    out.source("car", Signals("page [1]", "volts [V]", "amperes [A]"), {"volts": 1, "amperes": 2})
    names = {name: f"car.{name}" for name in ("page", "volts", "amperes")}
    transport = CanBus(500_000).frame(read_frames(dbc)["Mux"])
    out.sensor("mux", names, period=0.01, transport=transport)
    out.at(0.005, "car.page", 1)
    out.at(0.015, "car.volts", 9)
    recording = trace_of(out)
    assert recording["messages/mux.volts"].tolist() == [1, 1, 1]
    assert recording["messages/mux.amperes"].tolist() == [0, 2, 2]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: CanBus(7), "the bit rate of a classical CAN bus is a whole number"),
        (lambda: CanBus(5_000_000), "from 1000 to 1000000"),
        (lambda: CanBus(500_000, stuffing="most"), "stuffing is 'most'; choose 'exact' or 'worst'"),
        (lambda: CanBus(500_000).frame(0x800), "identifier 0x800 is not from 0 to 0x7ff; for 29"),
        (lambda: CanBus(500_000).frame(1, length=9), "has 9 bytes; a classical CAN frame has from"),
    ],
)  # fmt: skip
def test_a_wrong_bus_or_frame_is_explained(make: Any, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        make()


def test_senders_that_cannot_share_a_bus_are_named(tmp_path: Path) -> None:
    bus, dbc = CanBus(500_000), frame_files(tmp_path)[0]
    with pytest.raises(ScenarioError, match="a and b both send the identifier 0x100 on can"):
        car(bus, a=bus.frame(0x100), b=bus.frame(0x100)).build()
    with pytest.raises(ScenarioError, match="a and b declare can differently"):
        car(bus, a=bus.frame(0x100), b=CanBus(250_000).frame(0x101)).build()
    with pytest.raises(UnknownName, match=r"unknown signal 'x' in frame Engine, which carries"):
        car(bus, a=bus.frame(read_frames(dbc)["Engine"])).build()
    with pytest.raises(UnknownName, match=r"unknown signal 'y' in messages of a"):
        car(bus, a=bus.frame(read_frames(dbc)["Engine"], signals={"y": "speed"})).build()
    with pytest.raises(ScenarioError, match="a have 1 values, but their CAN frame has no data"):
        car(bus, a=bus.frame(0x100, length=0), b=bus.frame(1)).build()


def test_a_bus_that_cannot_carry_its_load_ends_the_run() -> None:
    bus = CanBus(1_000)
    out = car(bus)
    out.sensor("a", {"x": "car.x"}, period="1e-6", transport=bus.frame(1))
    out.sensor("slow", {"x": "car.x"}, period=1, transport=Fixed(0))
    with pytest.raises(LatencyError, match=f"{MOST_WAITING} messages wait for can, .*overloaded"):
        trace_of(out)


def test_a_frame_that_is_not_ready_yet_does_not_wait() -> None:
    frame, queue = CanBus(500_000).frame(0x100), MediumQueue("can")
    signals = Signals("x [1]")
    queue.add("a", frame.carrier(signals, "a"), signals.initial())
    for ready in (10, 20, 30):
        parcel = Parcel("a", 0, Tag(0), Tag(ready), np.zeros(1), 0, 0)
        queue.put(ready, parcel)
    assert [queue.waiting(ns) for ns in (9, 10, 30)] == [{}, {"a": 1}, {"a": 3}]
    assert queue.decide(20) is not None
    assert [queue.waiting(ns) for ns in (20, 30)] == [{"a": 1}, {"a": 2}]


ERRORS = {"name": "e", "where": "a", "kind": "error_frame", "times": 2, "at": 0.01, "count": 1}


def test_an_error_frame_costs_a_transmission_and_the_recovery() -> None:
    """Frame, error frame of 20 bits and intermission, twice; then the frame competes again."""
    bus = CanBus(500_000, stuffing="worst")
    scenario = car(bus, a=bus.frame(0x100), b=bus.frame(0x200))
    scenario.faults(ERRORS)
    recording = trace_of(scenario)
    lost = 2 * (132 + 20 + 3) * BIT
    assert arrivals(recording, "a") == [
        132 * BIT, 10_000_000 + lost + 132 * BIT, 20_000_000 + 132 * BIT,
    ]  # fmt: skip
    assert arrivals(recording, "b")[1] == 10_000_000 + lost + (135 + 132) * BIT
    told = [e for e in recording.events if e.kind == "Fault"]
    assert [(e.source, e.text) for e in told] == [
        ("e", "error_frame at a: message 1 is destroyed on the bus and sent again")
    ]


def test_an_error_frame_needs_a_bus() -> None:
    scenario = unstable(until=0.5)
    scenario.faults({**ERRORS, "where": "controller"})
    idle = [e for e in trace_of(scenario).events if e.kind == "FaultIdle"]
    assert [e.text for e in idle] == [
        "messages of controller travel on no bus: error_frame acts on frames of a CanBus"
    ]


def test_other_faults_and_loss_act_before_the_bus() -> None:
    """A lost message takes no time on the bus; a second copy is a second frame."""
    bus = CanBus(500_000, stuffing="worst")
    scenario = car(bus, a=Loss(bus.frame(0x100), 1.0), b=bus.frame(0x200))
    recording = trace_of(scenario)
    assert recording.track("messages/a").integer("status").tolist() == [1, 1, 1]
    assert arrivals(recording, "b")[0] == 132 * BIT
    scenario = car(bus, a=bus.frame(0x100), b=bus.frame(0x200))
    scenario.faults({"name": "d", "where": "a", "kind": "duplicate", "at": 0.01, "count": 1})
    recording = trace_of(scenario)
    assert recording.track("messages/a").integer("status").tolist() == [0, 0, 2, 0]
    assert arrivals(recording, "b")[1] == 10_000_000 + (2 * 135 + 132) * BIT


def test_a_message_that_is_delayed_waits_for_the_bus_from_then_on() -> None:
    """Its frame is ready 2 ms after its sample; the bus was free for the other one until then."""
    bus = CanBus(500_000, stuffing="worst")
    scenario = car(bus, a=bus.frame(0x100), b=bus.frame(0x200))
    scenario.faults(
        {"name": "d", "where": "a", "kind": "delay", "delay": 0.002, "at": 0.01, "count": 1}
    )
    recording = trace_of(scenario)
    assert arrivals(recording, "a")[1] == 12_000_000 + 132 * BIT
    assert arrivals(recording, "b")[1] == 10_000_000 + 132 * BIT


def loop(faulty: bool, until: float = 1.0) -> Scenario:
    """The unstable plant, whose controller shares a slow bus with other senders."""
    out = unstable(until=until)
    bus = CanBus(10_000)
    component = out.controller_component("controller", "no controller")
    component.transport = bus.frame(0x300)
    for k, period in enumerate((0.031, 0.047)):
        transport = bus.frame(0x100 + k)
        out.sensor(f"s{k}", {"x": "plant.x"}, period=period, transport=transport)
    if faulty:
        errors = {"name": "e", "where": "controller", "kind": "error_frame", "probability": 0.2}
        out.faults(errors)
    return out


def test_a_run_with_a_bus_is_the_same_on_both_engines() -> None:
    digests = {trace_of(loop(False), engine=e).digest() for e in ("compiled", "interpreted")}
    assert len(digests) == 1
    assert digests != {trace_of(loop(True)).digest()}


def test_a_run_with_a_bus_replays_and_continues_from_every_checkpoint() -> None:
    whole = trace_of(loop(True))
    assert compare_exact(whole, rerun(whole, loop(True))) is None
    ring, busy = Ring(10), 0
    simulate(
        loop(True), recorder=MemoryRecorder(), checkpoints=CheckpointSchedule(ring, every="0.013")
    )
    for ns in range(100_000_000, 1_000_000_000, 130_000_000):
        kept = ring.before(ns)
        assert kept is not None
        busy += bool(kept.state["bus"]["media"]["can"]["waiting"])
        rest = simulate(loop(True), recorder=MemoryRecorder(), start=kept).recording()
        for name in ("controller", "s0", "s1"):
            ours, theirs = (r.rows(f"messages/{name}") for r in (whole, rest))
            assert len(theirs.ns)
            assert ours.floats[-len(theirs.ns) :].tolist() == theirs.floats.tolist()
            assert arrivals(whole, name)[-len(theirs.ns) :] == arrivals(rest, name)
    assert busy, "no checkpoint was taken while a frame waited"


def test_prepared_runs_put_the_bus_back() -> None:
    """A frame that waited at the end of one run does not reach the next run."""
    prepared = prepare(loop(False))
    assert prepared.rebuilt == ()
    whole = trace_of(loop(False)).digest()
    for _ in range(2):
        assert prepared.run().recording().digest() == whole


def test_a_linear_model_refuses_a_latency_that_depends_on_others() -> None:
    with pytest.raises(ModelError, match=r"the latency of topic controller depends on the other"):
        open_loop(loop(False), "controller.u")

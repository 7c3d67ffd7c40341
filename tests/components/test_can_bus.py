"""CAN buses in a simulation: bits, arbitration, error frames, and runs that share a bus.

Codecs of DBC and TOML files: round trips on the raw grid, and frames that are malformed.

``rtsim bus check``, ``load`` and ``listen`` as they are typed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest
from command_line import rtsim
from frame_parts import DBC, frame_files
from hypothesis import given, settings
from hypothesis import strategies as st

from hitl.buses import FrameLink, open_frame_link
from rtsim.components.can_bus import (
    CanBus,
    PeriodicFrame,
    arbitration,
    crc15,
    frame_bits,
    stuff_bits,
    stuffed_part,
    worst_frame_bits,
    worst_latencies,
)
from rtsim.components.controller import PythonController
from rtsim.components.frames import Frame, FrameCodec, FrameError, read_frames
from rtsim.components.frames.dbc import DbcCodec
from rtsim.components.latency import Fixed, Loss
from rtsim.components.lines import Lines
from rtsim.components.medium import MOST_WAITING, Parcel
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
from rtsim.testing.frames import check_frame_codec
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
    assert recording.messages["engine"]["n"].tolist() == [1234.5]
    assert recording.messages["engine"]["m"].tolist() == [-33.5]
    data = engine.encode(np.array([1234.5, -33.5, -40, 0]))
    assert arrivals(recording, "engine") == [frame_bits(256, False, data) * BIT]
    assert "Engine, car.dbc sha256" in recording.header["scenario"]["parts"]["engine"]["transport"]
    wild = out.copy()
    wild.set("car.n", 1e6)
    with pytest.raises(FrameError, match=r"Engine.speed = 1e\+06 does not fit .* 0 to 16383.8;"):
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
    assert recording.messages["mux"]["volts"].tolist() == [1, 1, 1]
    assert recording.messages["mux"]["amperes"].tolist() == [0, 2, 2]


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
    frame, queue = CanBus(500_000).frame(0x100), Lines("can")
    signals = Signals("x [1]")
    queue.add("a", frame.carrier(signals, "a"), signals.initial())
    for ready in (10, 20, 30):
        parcel = Parcel("a", 0, Tag(0), Tag(ready), np.zeros(1), 0, 0)
        queue.put(ready, parcel)
    assert [queue.waiting(ns) for ns in (9, 10, 30)] == [{}, {"a": 1}, {"a": 3}]
    assert len(queue.decide(20)) == 1
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
        ("e", "error_frame at a: message 1 is destroyed on its medium")
    ]


def test_an_error_frame_needs_a_bus() -> None:
    scenario = unstable(until=0.5)
    scenario.faults({**ERRORS, "where": "controller"})
    idle = [e for e in trace_of(scenario).events if e.kind == "FaultIdle"]
    assert [e.text for e in idle] == [
        "messages of controller travel on no medium: error_frame acts on frames of a medium such "
        "as a CanBus"
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
            ours, theirs = (r.track(f"messages/{name}").rows for r in (whole, rest))
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


@pytest.fixture(scope="module")
def codecs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, FrameCodec]:
    dbc, toml = frame_files(tmp_path_factory.mktemp("frames"))
    return {**read_frames(dbc), **{f"struct_{n}": c for n, c in read_frames(toml).items()}}


def test_every_codec_passes_the_checks(codecs: Mapping[str, FrameCodec]) -> None:
    assert len(codecs) == 6
    for codec in codecs.values():
        check_frame_codec(codec)


def _bits(data: bytes, start: int, length: int, big: bool) -> int:
    """Return raw bits at a place in the counting of DBC files, with no library."""
    if not big:
        return int.from_bytes(data, "little") >> start & ((1 << length) - 1)
    at = start // 8 * 8 + 7 - start % 8  # bits from the first one on the line
    return int.from_bytes(data, "big") >> (8 * len(data) - at - length) & ((1 << length) - 1)


def _signed(raw: int, bits: int) -> int:
    return raw - (1 << bits) if raw >> (bits - 1) else raw


@given(
    speed=st.integers(0, 2**16 - 1), torque=st.integers(-(2**11), 2**11 - 1),
    temperature=st.integers(0, 255), running=st.booleans(),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_scaled_and_big_endian_signals_come_back_exactly(
    codecs: Mapping[str, FrameCodec], speed: int, torque: int, temperature: int, running: bool
) -> None:
    values = np.array([speed * 0.25, torque * 0.5 - 100, temperature - 40, float(running)])
    data = codecs["Engine"].encode(values)
    assert _bits(data, 0, 16, big=False) == speed
    assert _signed(_bits(data, 23, 12, big=True), 12) == torque
    assert _bits(data, 39, 8, big=True) == temperature
    back = np.zeros(4)
    codecs["Engine"].decode(data, back)
    assert back.tobytes() == values.tobytes()


@given(page=st.integers(0, 1), raw=st.integers(-(2**15), 2**15 - 1), count=st.integers(0, 255))
@settings(max_examples=150, deadline=None)
def test_a_multiplexed_frame_carries_the_signals_of_its_page(
    codecs: Mapping[str, FrameCodec], page: int, raw: int, count: int
) -> None:
    value = raw * 0.001 if page == 0 else raw * 0.01 + 5
    sent = np.array([page, value, 1e9, count] if page == 0 else [page, 1e9, value, count])
    data = codecs["Mux"].encode(sent)
    assert data[0] == page
    found = _bits(data, 15, 16, True) if page == 0 else _bits(data, 8, 20, False)
    assert _signed(found, 16 if page == 0 else 20) == raw
    back = np.full(4, 7.5)
    codecs["Mux"].decode(data, back)
    expected = sent.copy()
    expected[2 - page] = 7.5  # the signal of the other page keeps its value
    assert back.tobytes() == expected.tobytes()


def test_a_struct_has_the_bytes_that_its_file_says(codecs: Mapping[str, FrameCodec]) -> None:
    codec = codecs["struct_attitude"]
    data = codec.encode(np.array([-12.34, 0.5, -1.0, 2.0, 1.0]))
    assert data == struct.pack(">Hhfff2xB", 0xCAFE, -1234, 0.5, -1.0, 2.0, 1)
    back = np.zeros(5)
    codec.decode(data, back)
    assert back.tolist() == [-1234 * 0.01, 0.5, -1.0, 2.0, 1.0]
    for wrong in (b"\xca\xff" + data[2:], data[:-1] + b"\2", data[:4] + b"\x7f\xc0\0\0" + data[8:]):
        with pytest.raises(FrameError, match=r"attitude is malformed: (magic|armed|rates) is"):
            codec.decode(wrong, back)


def test_a_value_that_does_not_fit_is_an_error_or_saturates(tmp_path: Path) -> None:
    dbc, _ = frame_files(tmp_path)
    low = np.array([-1.0])
    with pytest.raises(FrameError, match=r"Pedal.pedal = -1 does not fit .* 0 to 655.35;"):
        read_frames(dbc)["Pedal"].encode(low)
    assert read_frames(dbc, overflow="saturate")["Pedal"].encode(low) == b"\0\0"
    with pytest.raises(FrameError, match=r"[eE]xpected multiplexer id"):
        read_frames(dbc)["Mux"].encode(np.array([9.0, 0.0, 0.0, 0.0]))


def test_a_file_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    dbc, toml = frame_files(tmp_path)
    frames = read_frames(dbc)
    engine = frames["Engine"]
    assert isinstance(engine, DbcCodec)
    assert (engine.identifier, engine.extended, engine.period_ns) == (256, False, 10_000_000)
    assert frames["Long"].extended
    assert frames["Long"].identifier == 2566844926 - 2**31
    assert read_frames(dbc)["Engine"] == engine
    with pytest.raises(
        UnknownName, match=r"unknown frame 'Engin' in .*car.dbc; did you mean Engine"
    ):
        frames["Engin"]
    with pytest.raises(ScenarioError, match=r"^/.*none.dbc does not exist"):
        read_frames(tmp_path / "none.dbc")
    (tmp_path / "a.txt").touch()
    with pytest.raises(UnknownName, match=r"unknown kind of file of frames 'txt'"):
        read_frames(tmp_path / "a.txt")
    for text, said in (
        (
            DBC.replace("BO_ 256 10", "BO_ 256 -10").replace("INT 0 65535", "INT -99 99"),
            "a.dbc: frame Engine has a period of -10 ms; give a positive period",
        ),
        (
            DBC.replace("BO_ 300 ", "BO_ 512 "),
            "a.dbc: frames Mux and Pedal both have the identifier 0x200",
        ),
        (DBC.replace("0.25,0", "0,0"), "a.dbc: Engine.speed: scale 0.0 and bias 0.0 must be"),
        (DBC.replace(" Pedal:", " Mux:"), "a.dbc: several messages have the name Mux; rename one"),
        ("BO_ nonsense", "a.dbc is not a valid DBC file"),
        ('VERSION ""', "a.dbc describes no messages"),
    ):
        (tmp_path / "a.dbc").write_text(text)
        with pytest.raises(ScenarioError, match=said):
            read_frames(tmp_path / "a.dbc")
    for text, said in (
        ("a = 1", r"a.toml:1: a = 1 is not valid \(no table\); write a table \[NAME\]"),
        ("[a", "a.toml: the file is not valid TOML: Expected"),
        (
            '[a]\nidentifier=7\n[a.fields]\nx = {type="int8"}\n[b]\nidentifier=7\n[b.fields]\nx = '
            '{type="int8"}',
            "a.toml: frames a and b both have the identifier 0x007",
        ),
        ('[a]\nperiod=-0.1\n[a.fields]\nx = {type="int8"}', "frame a has a period of -100 ms"),
        ("", "describes no frames"),
        ("[a]", r"a.toml:1: a: the frame has no fields; add \[a.fields\] with lines such as"),
        (
            '[a]\nendian = "middle"\n[a.fields]\nx = {type="int8"}',
            "a.toml:2: a: unknown endian 'middle'; did you mean little",
        ),
        ('[a.fields]\nx = {type="int9"}', "a.fields.x: unknown type 'int9'; did you mean int8"),
        (
            '[a.fields]\nx = {type="int8", scal=2}',
            "a.fields.x: unknown key 'scal'; did you mean scale",
        ),
        ('[a.fields]\nx = {type="int8", scale=0}', "x: scale 0.0 and bias 0.0 must be finite"),
        ('[a.fields]\nx = {type="int8", value=128}', "value = 128 does not fit"),
        (
            '[a.fields]\nx = {type="int8", count=70000}',
            "count = 70000 is not valid; write a whole number from 1 to 65507",
        ),
        (
            '[a.fields]\nx = {type="float64", count=9000}',
            "a.toml:1: a: the frame has 72000 bytes; a datagram has at most",
        ),
    ):
        (tmp_path / "a.toml").write_text(text)
        with pytest.raises(ScenarioError, match=said):
            read_frames(tmp_path / "a.toml")
    assert list(read_frames(toml)) == ["attitude", "pedal"]


SCENARIO = """
from rtsim import Scenario, Signals
from rtsim.components.can_bus import CanBus
from rtsim.components.latency import Loss

def scenario(bitrate=500_000, buses=1):
    out = Scenario("car", until=0.1)
    out.source("car", Signals("x [1]"))
    bus = CanBus(int(bitrate), "chassis")
    if buses:
        out.sensor("a", {"x": "car.x"}, period=0.001, transport=bus.frame(0x200))
        out.sensor("b", {"x": "car.x"}, period=0.002, transport=Loss(bus.frame(0x100), 0.1))
    return out
"""


def test_check_shows_what_a_file_describes(tmp_path: Path) -> None:
    dbc, toml = frame_files(tmp_path)
    done = rtsim("bus", "check", str(dbc))
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    assert "Engine 0x100 8 135 10 2.70" in text
    assert f"Long 0x{2566844926 - 2**31:08x} 5" in text
    assert "speed rpm 0 16383.75 0.25 0" in text
    assert "temperature degC -40 215 1 -40" in text
    assert "bus with 500000 bit/s: at most 4.0 %, without Long, Pedal, which have no" in text
    done = rtsim("bus", "check", str(toml), "--json")
    told = json.loads(done.output)
    assert (told["outcome"], told["load"]) == ("passed", pytest.approx(0.0075))
    assert [f["name"] for f in told["frames"]] == ["attitude", "pedal"]
    assert told["notes"] == [
        "attitude has 19 bytes and fits into no classical CAN frame; it can be a datagram"
    ]
    done = rtsim("bus", "check", str(tmp_path / "none.dbc"))
    assert (done.exit_code, "none.dbc does not exist" in done.output) == (2, True)


def test_check_fails_if_a_bus_cannot_carry_the_frames(tmp_path: Path) -> None:
    dbc, _ = frame_files(tmp_path)
    done = rtsim("bus", "check", str(dbc), "--bitrate", "20000")
    assert done.exit_code == 1
    assert (
        "FAILED: a bus with 20000 bit/s cannot carry the load of the longest frames; use"
        in done.output
    )
    done = rtsim("bus", "check", str(dbc), "--bitrate", "20000", "--json")
    assert (done.exit_code, json.loads(done.output)["outcome"]) == (1, "failed")


def test_a_run_tells_the_messages_that_waited_for_a_bus_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "car.py"
    path.write_text(SCENARIO)
    words = ("run", str(path), "--until", "0.1", "--no-record")
    done = rtsim(*words, "--strict")
    assert (
        "chassis: 1 message waited at the end of the run and cannot be recorded: a" in done.output
    )
    assert "did not keep up" not in done.output
    assert "rtsim bus load" not in done.output
    slow = (*words, "--set", "bitrate=20000")
    done = rtsim(*slow)
    assert done.exit_code == 0
    assert "chassis: 133 messages waited at the end of the run and cannot be" in done.output
    assert "; rtsim bus load SCENARIO prints the load of each medium" in done.output
    told = json.loads(rtsim(*slow, "--json").output)
    assert sum(told["waiting"]["chassis"].values()) == 133
    done = rtsim(*slow, "--strict")
    assert done.exit_code == 1
    assert "Error: --strict: senders that chassis did not keep up with: a" in done.output


def test_load_says_who_loads_a_bus_and_fails_if_it_is_too_much(tmp_path: Path) -> None:
    path = tmp_path / "car.py"
    path.write_text(SCENARIO)
    done = rtsim("bus", "load", str(path), "--json")
    assert done.exit_code == 0, done.output
    (bus,) = json.loads(done.output)["buses"].values()
    assert bus["load"] == pytest.approx(0.27 + 0.135)
    assert [(f["sender"], f["worst_latency_ns"]) for f in bus["frames"]] == [
        ("b", (135 + 132) * 2000),
        ("a", (135 + 132) * 2000),
    ]
    done = rtsim("bus", "load", str(path), "--set", "bitrate=150000")
    assert done.exit_code == 1
    assert "FAILED: chassis cannot carry the load; give the bus a higher bit rate" in done.output
    assert "no limit" in done.output
    done = rtsim("bus", "load", str(path), "--set", "buses=0")
    assert done.exit_code == 2
    assert (
        "has no bus and no network; give components a transport such as CanBus(...).frame(...)"
        in done.output
    )


def test_the_printed_latencies_are_those_of_the_published_example() -> None:
    """Counter-example of Davis et al. 2007: 2, 3 and 3.5 ms at C = 1 ms."""
    bus = CanBus(135_000)
    periods = (2_500_000, 3_500_000, 3_500_000)
    frames = [PeriodicFrame(f"m{k}", bus.frame(k), ns) for k, ns in enumerate(periods)]
    tail = 1_000_000 - bus.ns(132)  # the paper counts to the end of the intermission
    found = worst_latencies(frames)
    assert found == {"m0": 2_000_000 - tail, "m1": 3_000_000 - tail, "m2": 3_500_000 - tail}
    fourth = PeriodicFrame("m3", bus.frame(9), 1_000_000)
    assert worst_latencies([*frames, fourth])["m3"] is None


def _later(link: FrameLink, *frames: Frame) -> Timer:
    def send() -> None:
        for frame in frames:
            link.send(frame)

    timer = Timer(0.2, send)
    timer.start()
    return timer


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("db=car.dbc", "unknown option db; did you mean dbc?"),
        ("frame=car.dbc", "unknown option frame; did you mean frames?"),
        ("bits=3", "unknown option 'bits' in can://virtual/b?bits=3; known: dbc, frames, remote"),
    ],
)
def test_listen_refuses_an_option_that_nothing_reads(option: str, said: str) -> None:
    done = rtsim("bus", "listen", f"can://virtual/b?{option}", "--for", "0.01")
    assert done.exit_code == 2
    assert said in done.output


def test_listen_says_that_nothing_was_decoded() -> None:
    done = rtsim("bus", "listen", "can://virtual/b?rx_queue_size=9", "--for", "0.01")
    assert done.output.strip() == (
        "0 frames, 0 malformed; the URL names no file of frames, so none was decoded"
    )


@pytest.mark.live
def test_listen_prints_signals_and_names_malformed_frames(tmp_path: Path) -> None:
    dbc, _ = frame_files(tmp_path)
    sender = open_frame_link("can://virtual/listened")
    url = f"can://virtual/listened?dbc={dbc}"
    frames = [Frame(b"\xd2\x04", 300), Frame(b"\xd2", 300), Frame(b"\1", 0x7FF)]
    try:
        timer = _later(sender, *frames)
        done = rtsim("bus", "listen", url, "--count", "3", "--for", "20")
        timer.join()
        assert done.exit_code == 1, done.output
        assert "0x12c Pedal pedal=12.34" in done.output
        assert "0x12c d2 MALFORMED: frame Pedal has 1 bytes; its description says 2" in done.output
        assert "0x7ff 01" in done.output
        assert "3 frames, 1 malformed" in done.output
        timer = _later(sender, frames[0])
        done = rtsim("bus", "listen", url, "--count", "1", "--json")
        timer.join()
        (row,) = json.loads(done.output)["frames"]
        assert row["signals"] == {"pedal": 12.34}
    finally:
        sender.close()
    done = rtsim("bus", "listen", url, "--json")
    assert (done.exit_code, "give --count or --for too" in done.output) == (2, True)

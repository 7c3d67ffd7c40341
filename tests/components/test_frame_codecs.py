"""Codecs of DBC and TOML files: round trips on the raw grid, and frames that are malformed."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from frame_parts import DBC, frame_files
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim.components.frames import FrameCodec, FrameError, read_frames
from rtsim.components.frames.dbc import DbcCodec
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.testing.frames import check_frame_codec


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
    with pytest.raises(FrameError, match=r"Pedal.pedal = -1 is outside 0 to 655.35, which"):
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
    with pytest.raises(ScenarioError, match=r"none.dbc does not exist"):
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
        ("[a]", r"a.toml:1: a: no fields; add \[a.fields\] with lines such as"),
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

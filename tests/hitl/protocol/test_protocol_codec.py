"""Packing: the same conversions and refusals as the generated C makes, and back."""

from __future__ import annotations

import ctypes
import math
import struct
from pathlib import Path

import numpy as np
import pytest
from protocol_parts import f16

from hitl.building.build import build
from hitl.interface import Interface, load_interface
from hitl.protocol.codec import Codec, name_hash, wire_schema

TYPES = (
    "float64", "float32", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
    "uint64",
)  # fmt: skip
ROWS = [f'a_{t} = {{ type = "{t}" }}' for t in TYPES] + [
    'b_fixed = { type = "int16", scale = "1/256", bias = 3.5 }',
    'c_fixed = { type = "uint8", scale = 0.1, overflow = "saturate" }',
    'd_many = { type = "float32", shape = [3] }',
    'e_wide = { type = "int64", scale = 1e-7, overflow = "saturate" }',
    'f_wide = { type = "uint64", scale = 3.0, bias = -1.0 }',
]
EDGES = (
    0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 127.49, 127.5, 128.0, -128.5, -129.0, 255.0, 256.0,
    32767.4, 65535.5, 2.0**31 - 1, 2.0**31, 2.0**32 - 0.5, 2.0**53 + 2, 2.0**63 - 1024, 2.0**63,
    2.0**64 - 2048, 2.0**64, -(2.0**63), 1e300, -1e300, 3.4028235e38, 3.40282356e38, 3.5e38,
    1e-45, 1e-320, math.inf, -math.inf, math.nan, 45.5017, 25.45, 25.55, -1e-9, 131.49, 131.51,
)  # fmt: skip


def interface(folder: Path, rows: list[str] = ROWS) -> Interface:
    """A controller that hands its inputs on."""
    names = [row.split()[0] for row in rows]
    outputs = [
        f"o_{row}".replace(', overflow = "saturate"', "").replace("o_d_many = {", "o_d_many = {")
        for row in rows
    ]
    copies = [
        f"for (int k = 0; k < 3; k++) o_{n}[k] = {n}[k]" if "many" in n else f"o_{n} = {n}"
        for n in names
    ]
    (folder / "echo.h").write_text("")
    text = (
        'name = "echo"\nperiod = 0.01\nsources = []\nheaders = ["echo.h"]\n[code]\n'
        f"step = {copies!r}\n[inputs]\n" + "\n".join(rows) + "\n[outputs]\n" + "\n".join(outputs)
    )
    (folder / "echo.toml").write_text(text)
    return load_interface(folder / "echo.toml")


def test_layout_is_packed_and_little_endian(tmp_path: Path) -> None:
    rows = ['a = { type = "uint8" }', 'b = { type = "float32" }', 'c = { type = "int16" }']
    codec = Codec(interface(tmp_path, rows).input_fields)
    data, refused = codec.pack(np.array([7.0, 1.5, -2.0]))
    assert (data, refused) == (struct.pack("<Bfh", 7, 1.5, -2), 0)
    values, refused = codec.unpack(data)
    assert (values.tolist(), refused) == ([7.0, 1.5, -2.0], 0)


def test_it_converts_and_refuses_as_the_generated_c_does(tmp_path: Path) -> None:
    """Each edge for each element, through the library of SIL and through the codec."""
    made = build(interface(tmp_path))
    library = ctypes.CDLL(str(made.library))
    library.rtsim_step.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    inputs, outputs = Codec(made.interface.input_fields), Codec(made.interface.output_fields)
    assert inputs.size == len(TYPES) + 7
    refusals = 0
    for column in range(inputs.size):
        for edge in EDGES:
            given, by_c = np.zeros(inputs.size), np.zeros(inputs.size)
            given[column] = edge
            status = library.rtsim_step(given.ctypes.data, by_c.ctypes.data)
            data, refused = inputs.pack(given)
            if status >= 0:
                assert refused == status, (made.interface.inputs.columns[column], edge)
            refusals += bool(refused)
            if refused:
                continue
            values, unheld = outputs.unpack(data)
            assert min(status, 0) == unheld
            if not unheld:
                np.testing.assert_array_equal(values, by_c)
    assert refusals > 100


def test_integers_that_no_float64_holds_are_refused(tmp_path: Path) -> None:
    rows = ['a = { type = "int8" }', 'b = { type = "int64" }', 'c = { type = "uint64" }']
    codec = Codec(interface(tmp_path, rows).output_fields)
    for b, c, status in (
        (2**53, 2**64 - 2048, 0), (2**53 + 1, 0, -2), (2**63 - 1, 0, -2), (0, 2**64 - 1, -3),
    ):  # fmt: skip
        assert codec.unpack(struct.pack("<bqQ", 1, b, c))[1] == status


def test_a_wrong_number_of_values_is_the_callers_mistake() -> None:
    codec = Codec(f16().input_fields)
    assert (codec.size, codec.bytes) == (20, 80)
    with pytest.raises(ValueError, match="got 19 values, but the signals of the interface have 20"):
        codec.pack(np.zeros(19))
    with pytest.raises(
        ValueError, match="received 81 bytes, but the signals of the interface have 80"
    ):
        codec.unpack(bytes(81))


def test_an_interface_without_parameters_packs_to_nothing() -> None:
    assert Codec(()).pack(np.zeros(0)) == (b"", 0)
    assert Codec(()).unpack(b"")[0].shape == (0,)


def test_the_schema_knows_the_scale(tmp_path: Path) -> None:
    def schema(scale: str) -> int:
        return wire_schema(interface(tmp_path, [f'a = {{ type = "int16", scale = "{scale}" }}']))

    assert schema("1/256") == schema("1/256")
    assert schema("1/256") != schema("1/128")
    assert name_hash("f16_control") != name_hash("pid")

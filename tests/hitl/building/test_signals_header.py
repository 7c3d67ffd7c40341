"""The generated C header: as a compiler reads it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import hitl
from hitl.building.c_code import header_text
from hitl.building.toolchain import find_toolchain
from hitl.interface import load_interface

FILES = sorted((Path(hitl.__file__).parent / "examples").glob("*/*.toml"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_columns_schema_and_period_are_those_of_the_interface(file: Path, tmp_path: Path) -> None:
    interface = load_interface(file)
    name = interface.name
    vectors = {
        "input": interface.inputs, "output": interface.outputs, "parameter": interface.parameters,
    }  # fmt: skip
    expected = [f"{interface.schema:x}", f"{interface.period.seconds:.17g}"]
    expected += [str(len(signals.columns)) for signals in vectors.values()]
    expected += [str(k) for signals in vectors.values() for k in range(len(signals.columns))]
    columns = [f"{name}_{kind}_{c}" for kind, s in vectors.items() for c in s.columns]
    counts = [f"{name}_{kind}s_count" for kind in vectors]
    prints = [f'printf("%llx\\n%.17g\\n", {name.upper()}_SCHEMA, (double){name.upper()}_PERIOD_S);']
    prints += [f'printf("%d\\n", (int){what});' for what in (*counts, *columns)]
    (tmp_path / "signals.h").write_text(header_text(interface))
    body = "\n".join(prints)
    program = '#include <stdio.h>\n#include "signals.h"\n#include "signals.h"\n'
    program += f"int main(void) {{\n{body}\nreturn 0; }}\n"
    (tmp_path / "main.c").write_text(program)
    flags = ["-std=c99", "-pedantic-errors", "-Wall", "-Werror"]
    find_toolchain().run([*flags, tmp_path / "main.c", "-o", tmp_path / "main"], tmp_path)
    said = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    assert said.split() == expected


def test_a_unit_with_the_end_of_a_comment_ends_none(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        'name = "a"\nperiod = 1\nsources = []\ncode.step = "y = 1"\n'
        '[outputs]\ny = { unit = "m*/s" }\n'
    )
    assert "/* float64 m* /s */" in header_text(load_interface(tmp_path / "a.toml"))

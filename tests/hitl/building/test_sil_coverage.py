"""Coverage: lines and branches of the user's C alone, added up within a measurement."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import click
import numpy as np
import pytest
from build_parts import entries, use_own_cache
from c_parts import with_gcc

from hitl.building import coverage as module
from hitl.building import store
from hitl.building.build import Build, build
from hitl.building.coverage import Counted, CoverageError, _major, measured
from hitl.cli.common import coverage_option
from hitl.controllers.sil import SilController
from rtsim.core.tag import Tag

pytestmark = with_gcc

SOURCE = """#include "limit.h"

static int never(void)
{
    return 3;
}

double limit_step(double value, double most)
{
    double out = value;
    if (value > most) {
        out = most;
    }
    if (value < -1e6) {
        out = never();
    }
    return half(out);
}
"""
HEADER = """static inline double half(double x)
{
    return x > 0.0 ? x / 2.0 : 0.0;
}
double limit_step(double value, double most);
"""
INTERFACE = """name = "limit"
period = 0.1
sources = ["limit.c"]
headers = ["limit.h"]

[code]
step = "limited = limit_step(value, most)"

[inputs]
value = {}
most = { initial = 10.0 }

[outputs]
limited = {}
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    use_own_cache(tmp_path / "cache", monkeypatch)
    monkeypatch.delenv("GCOV_PREFIX", raising=False)
    for name, text in (("limit.c", SOURCE), ("limit.h", HEADER), ("limit.toml", INTERFACE)):
        (tmp_path / name).write_text(text)
    return build(tmp_path / "limit.toml", "coverage")


def run(made: Build, *values: float) -> None:
    """In a process of its own, each value a step."""
    controller = SilController(made).fresh()
    try:
        for k, value in enumerate(values):
            controller.send(Tag(k), np.array([value, 10.0]))
            assert controller.receive(Tag(k), 10.0) == min(max(value, 0.0), 10.0) / 2.0
    finally:
        controller.close()


def cached() -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in store.root().rglob("*") if p.is_file()}


def test_lines_and_branches_by_hand(made: Build, tmp_path: Path) -> None:
    before = cached()
    with measured(made, tmp_path / "report") as coverage:
        run(made, 4.0)
    source = coverage.by_file[str(tmp_path / "limit.c")]
    header = coverage.by_file[str(tmp_path / "limit.h")]
    # limit.c: two of code in never, seven in limit_step, of which five run; two ifs, each one way.
    assert source == Counted(lines=9, lines_run=5, branches=4, branches_run=2)
    assert header == Counted(lines=2, lines_run=2, branches=2, branches_run=1)
    assert (coverage.line_percent, coverage.branch_percent) == (100 * 7 / 11, 50.0)
    assert coverage.in_words.startswith("lines 63.6 % (7 of 11), branches 50.0 % (3 of 6): ")
    assert coverage.to_json()["files"][str(tmp_path / "limit.h")]["branch_percent"] == 50.0
    assert set(coverage.by_file) == {str(tmp_path / "limit.c"), str(tmp_path / "limit.h")}
    assert cached() == before
    page = coverage.html.read_text()
    assert "limit.c" in page
    assert "unit.c" not in page


def test_processes_and_runs_add_up_and_the_next_measurement_starts_at_zero(
    made: Build, tmp_path: Path
) -> None:
    source = str(tmp_path / "limit.c")
    with measured(made, tmp_path / "one") as coverage:
        run(made, 4.0)
        run(made, 40.0, -4.0)
    assert coverage.by_file[source] == Counted(9, 6, 4, 3)
    assert coverage.by_file[str(tmp_path / "limit.h")].branch_percent == 100.0
    with measured([made], tmp_path / "two") as again:
        run(made, 4.0)
    assert again.by_file[source] == Counted(9, 5, 4, 2)


def test_a_run_that_nobody_measures_writes_no_counters(made: Build, tmp_path: Path) -> None:
    before = cached()
    run(made, 4.0)
    assert cached() == before
    assert entries() == [made.folder.name]
    assert list(tmp_path.rglob("*.gcda")) == []


def test_the_environment_is_as_before(
    made: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GCOV_PREFIX", "/somewhere")
    with pytest.raises(RuntimeError, match="mine"), measured(made, tmp_path / "report"):
        raise RuntimeError("mine")
    assert os.environ["GCOV_PREFIX"] == "/somewhere"
    assert "GCOV_PREFIX_STRIP" not in os.environ


def test_two_controllers_in_one_measurement(made: Build, tmp_path: Path) -> None:
    """Their objects have names of their own, though their sources have the same."""
    (tmp_path / "other").mkdir()
    for name in ("limit.c", "limit.h", "limit.toml"):
        shutil.copy(tmp_path / name, tmp_path / "other")
    other = build(tmp_path / "other" / "limit.toml", "coverage")
    with measured((made, other), tmp_path / "report") as coverage:
        run(made, 4.0)
        run(other, 40.0)
    assert coverage.by_file[str(tmp_path / "limit.c")].lines_run == 5
    assert coverage.by_file[str(tmp_path / "other" / "limit.c")].lines_run == 6


# ---------------------------------------------------------------- refusals


def test_what_counts_nothing_is_refused(made: Build, tmp_path: Path) -> None:
    plain = build(made.interface)
    with (
        pytest.raises(CoverageError, match=r"limit is a plain build, .*use --build coverage"),
        measured(plain, tmp_path / "report"),
    ):
        pass
    with (
        pytest.raises(CoverageError, match="no process of limit ran to its end"),
        measured(made, tmp_path / "report"),
    ):
        pass
    with (
        pytest.raises(CoverageError, match=r"cannot write coverage to .*limit\.c"),
        measured(made, made.interface.sources[0]),
    ):
        pass


def test_what_is_not_installed_is_named(
    made: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("hitl.building.coverage._major", lambda tool: 3)  # noqa: ARG005
        with (
            pytest.raises(
                CoverageError, match=r"none of .* fits the compiler .*sudo apt install gcc-\d+"
            ),
            measured(made, tmp_path / "report"),
        ):
            pass
    monkeypatch.setattr("hitl.building.coverage.importlib.util.find_spec", lambda name: None)  # noqa: ARG005
    with (
        pytest.raises(CoverageError, match=r"needs gcovr; type: pip install 'rtsim\[sil\]'"),
        measured(made, tmp_path / "report"),
    ):
        pass


def test_versions_of_gcov(tmp_path: Path) -> None:
    for name, said, major in (
        ("gnu", "gcov (Debian 12.2.0-14+deb12u1) 12.2.0", 12),
        ("llvm", "Debian LLVM version 14.0.6", 14),
        ("apple", "Apple LLVM version 15.0.0 (clang-1500.3.9.4)", 15),
    ):
        tool = tmp_path / name
        tool.write_text(f"#!/bin/sh\necho 'LLVM (http://llvm.org/):'\necho '{said}'\n")
        tool.chmod(0o755)
        assert _major((str(tool),)) == major
    assert _major((str(tmp_path / "none"),)) == -1


def test_no_folder_hides_the_package_of_its_name() -> None:
    """Beside a script it would be imported instead, by numba."""
    used = coverage_option(click.command()(lambda counted_into: str(counted_into)))
    default = used.main([], standalone_mode=False)
    written = re.findall(r'measured\(\w+, "([^"]+)"\)', module.__doc__ or "")
    assert written == [default] == ["coverage-report"]

"""Names that other packages keep to themselves: used in one place each, and there in this version.

A test here fails after an upgrade of numba, mcap or SimPy.  Then either adapt the module that it
names, or lower the upper bound of that package in pyproject.toml.
"""

from __future__ import annotations

import importlib
import io
import re
import tomllib
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import simpy
from numba.core import cgutils, types
from numba.extending import intrinsic

from rtsim.core.errors import ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals
from rtsim.discrete import Agenda, Processes
from rtsim.equations import numba_private
from rtsim.record.schema import TrackSpec
from rtsim.record.writer import PRIVATE, BatchWriter

ROOT = Path(__file__).resolve().parents[2]
PLACES = {
    "numba": "rtsim/equations/numba_private.py",
    "mcap": "rtsim/record/writer.py",
    "simpy": "rtsim/discrete/agenda.py",
}
PRIVATE_NAMES = {
    "numba": r"\b_getvalue\b|\b_get_compiled_object\b|\b_cache\.|\b_helperlib\b|\b_nrt_python\b"
    r"|\b_numba_unpickle\b|\b_library_class\b|\b_final_module\b",
    "mcap": r"\b_Writer__\w+",
    "simpy": r"\b_resume\b|\bevent\._\w+|\b_queue\b|\b_eid\b|\b_defused\b",
}


def users(package: str, sources: dict[str, str]) -> list[str]:
    """The files that import ``package`` and use its private names."""
    names, imports = re.compile(PRIVATE_NAMES[package]), re.compile(rf"(from|import) {package}\b")
    return [name for name, text in sources.items() if imports.search(text) and names.search(text)]


def shipped() -> dict[str, str]:
    folders = (ROOT / "rtsim", ROOT / "hitl")
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in folders
        for path in folder.rglob("*.py")
    }


@pytest.mark.parametrize("package", PLACES)
def test_private_names_are_used_in_one_place(package: str) -> None:
    assert users(package, shipped()) == [PLACES[package]]
    planted = f"import {package}; array._getvalue(); writer._Writer__statistics; event._ok"
    assert users(package, {"planted.py": planted}) == ["planted.py"]


@pytest.mark.parametrize("package", PLACES)
def test_a_package_with_private_names_in_use_has_an_upper_bound(package: str) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (wanted,) = (
        d for d in tomllib.loads(text)["project"]["dependencies"] if re.match(rf"{package}\W", d)
    )
    assert re.search(r",<\d", wanted), f"{wanted}: {PLACES[package]} uses its private names"


def said(package: str, version: str, lacks: str) -> str:
    return (
        f"{package} {version} {lacks}: adapt {PLACES[package]}, or lower the upper bound of "
        f"{package} in pyproject.toml"
    )


# -- numba


def doubled(x: float) -> float:
    if x < 0.0:
        raise ValueError("less than nothing")
    return 2.0 * x


@pytest.fixture(scope="module")
def jitted() -> Any:
    out = numba.njit(doubled)
    out.compile((types.float64,))
    return out


def test_numba_gives_object_code(jitted: Any) -> None:
    library = jitted.overloads[types.float64,].library
    try:
        code = numba_private.object_code(library)
    except AttributeError as error:
        pytest.fail(said("numba", numba.__version__, f"gives no object code ({error})"))
    assert code[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe") or code[:2] == b"\x64\x86"


def test_numba_keeps_files_under_a_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "def tripled(x):\n    return 3.0 * x\n"
    (tmp_path / "kept_by_numba.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "files"))
    out = numba.njit(importlib.import_module("kept_by_numba").tripled)
    out.compile((types.float64,))
    try:
        out.enable_caching()
        numba_private.name_files_by_signature(out)
        numba_private.save_files(out, out.overloads[types.float64,])
    except (AttributeError, TypeError) as error:
        pytest.fail(said("numba", numba.__version__, f"keeps files in another way ({error})"))
    assert list(tmp_path.rglob("*.nbi")), said("numba", numba.__version__, "wrote no file")


def test_numba_builds_structures() -> None:
    @intrinsic  # type: ignore[untyped-decorator]
    def pair(_: Any) -> Any:
        def made(context: Any, builder: Any, signature: Any, __: Any) -> Any:
            complex_number = cgutils.create_struct_proxy(signature.return_type)(context, builder)
            complex_number.real = context.get_constant(types.float64, 1.0)
            complex_number.imag = context.get_constant(types.float64, 2.0)
            return numba_private.value_of(complex_number)

        return types.complex128(), made

    assert numba.njit(lambda: pair())() == 1.0 + 2.0j, said("numba", numba.__version__, "differs")


def test_numba_counts_allocations() -> None:
    made = numba.njit(lambda n: np.zeros(n).sum())
    made(3)
    with numba_private.counting_allocations() as count:
        before = count()
        made(4)
        assert count() > before, said("numba", numba.__version__, "counts no allocations")


def test_numba_optimises_a_function_when_it_is_asked_for() -> None:
    """One that others call alone is not; one that Python calls, in the context or later, is."""
    inner = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)(doubled)
    outer, called = numba.njit(lambda x: inner(x) + 1.0), numba.njit(lambda x: inner(x) - 1.0)
    differs = said("numba", numba.__version__, "makes machine code in another way")
    with numba_private.optimised_as_a_whole():
        outer.compile((types.float64,))
    (late,) = (made.library for made in inner.overloads.values())
    assert not getattr(late, "_emitted", True), differs
    assert (outer(3.0), called(3.0)) == (7.0, 5.0), differs
    with pytest.raises(ValueError, match="less than nothing"):
        outer(-1.0)
    numba_private.optimise(late)
    assert numba_private.object_code(late), differs


# -- mcap


def test_mcap_takes_many_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*_: object) -> None:
        pytest.fail(said("mcap", "here", "has no chunk builder to add many rows to"))

    monkeypatch.setattr(BatchWriter, "_add_one_by_one", slowly)
    writer = BatchWriter(io.BytesIO())
    writer.start()
    schema = writer.register_schema("s", "jsonschema", b"{}")
    channel = writer.register_channel("t", "json", schema)
    writer.add_rows(channel, np.array([[1, 5], [2, 6]]), TrackSpec("t", (), Signals("x")), 0)
    writer.finish()  # type: ignore[no-untyped-call]
    assert all(hasattr(writer, name) for name in PRIVATE)


# -- SimPy


def test_simpy_goes_on_with_a_process_where_it_is_watched() -> None:
    def setup(agenda: Agenda) -> None:
        other = simpy.Environment()

        def waits() -> Any:
            yield agenda.timeout(1.0)
            yield other.timeout(1.0)

        agenda.process(waits())

    agenda = Agenda("shop", Processes(setup), (), np.zeros(0), RandomStreams(1))
    agenda.begin()
    agenda.react(0)
    found = ""
    try:
        agenda.react(1_000_000_000)
    except ScenarioError as error:
        found = str(error)
    missing = said("simpy", simpy.__version__, "goes on with a process in another way")
    assert "of another simpy.Environment" in found, missing

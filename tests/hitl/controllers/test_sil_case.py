"""Saved cases: written, read, refused, and run again by ``rtsim sil case``."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from c_parts import with_gcc
from click.testing import CliRunner, Result
from sil_parts import built, flown, loop, nothing_left, write_faulty

from hitl.building.build import Build
from hitl.cli import sil
from hitl.controllers.failure_log import Case, CaseError
from hitl.controllers.sil import SilController
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return built(tmp_path_factory)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with nothing_left():
        yield


def saved(plain: Build, cases: Path, fault: str, **values: float) -> Path:
    """The case of a run that failed."""
    controller = SilController(plain, values, cases=cases, silence=0.05)
    _, error = flown(loop(controller, fault))
    path = cases / "faulty-40000000-plain.npz"
    assert str(error).endswith(f"again: rtsim sil case {path}")
    return path


def case(*arguments: object) -> Result:
    return CliRunner().invoke(sil, ["case", "--trust", *map(str, arguments)])


@pytest.mark.parametrize("fault", ["abort", "nan", "endless"])
def test_it_fails_again(fault: str, plain: Build, tmp_path: Path) -> None:
    path = saved(plain, tmp_path, fault)
    done = case(path, "--silence", 0.05)
    assert done.exit_code == 1, done.output
    wanted = {"abort": "SIGABRT", "nan": "answered nan for y", "endless": "within 0.05 s"}
    assert "(plain): 5 of 5 steps" in done.output
    assert "last step: 0.040000000 s" in done.output
    assert "  x = 0.25" in done.output
    assert "fails again: faulty failed at 0.040000000 s: " in done.output
    assert wanted[fault] in done.output
    assert list(tmp_path.iterdir()) == [path], "a rerun saves no case"


def test_json(plain: Build, tmp_path: Path) -> None:
    done = case(saved(plain, tmp_path, "inf", end=0), "--json")
    assert done.exit_code == 1
    told = json.loads(done.output)
    assert (told["failed"], told["steps"], told["tag"]) == (True, 5, [40_000_000, 0])
    assert told["inputs"] == {"fault": 12.0, "x": 0.25}
    assert told["outputs"] == {"y": "inf"}
    assert told["error_then"] == "c answered inf for y"


def test_a_worker_that_is_killed_from_outside_is_no_failure_of_the_c(
    plain: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, send = saved(plain, tmp_path, "nan"), SilController.send

    def killing(self: SilController, tag: Tag, inputs: Vector) -> None:
        os.kill(self.pid, signal.SIGKILL)
        send(self, tag, inputs)

    monkeypatch.setattr(SilController, "send", killing)
    done = case(path)
    assert done.exit_code == 2, done.output
    assert "not decide whether the C code fails: faulty failed at 0.000000000 s: " in done.output
    told = json.loads(case(path, "--json").output)
    assert (told["outcome"], told["failed"]) == ("undecided", False)
    assert (told["exit_status"], told["why"]) == (2, told["error"])


@with_gcc
def test_under_the_sanitizer(plain: Build, tmp_path: Path) -> None:
    done = case(saved(plain, tmp_path, "abort"), "--build", "sanitize")
    assert done.exit_code == 1
    assert "(sanitize): 5 of 5 steps" in done.output


def test_it_does_not_fail_any_more(plain: Build, tmp_path: Path) -> None:
    kept = Case.load(saved(plain, tmp_path, "abort"))
    mended = Case(**{**kept.__dict__, "inputs": np.zeros((5, 2))})
    done = case(mended.save(tmp_path / "mended.npz"))
    assert done.exit_code == 0, done.output
    assert "  -> y = 5.0" in done.output, "all steps since the start were taken"
    assert "does not fail; the saved error is: the worker of faulty" in done.output
    shorter = Case(**{**kept.__dict__, "inputs": np.zeros((5, 2)), "forgotten": 7})
    done = case(shorter.save(tmp_path / "shorter.npz"))
    assert "the 7 steps before these were not saved" in done.output


def test_its_parameters_are_those_of_the_run(plain: Build, tmp_path: Path) -> None:
    kept = Case.load(saved(plain, tmp_path, "abort"))
    assert kept.parameters == {"start": [0.0], "end": [0.0]}
    other = Case(**{**kept.__dict__, "parameters": {"start": [1.0], "end": [0.0]}})
    done = case(other.save(tmp_path / "other.npz"))
    assert done.exit_code == 1
    assert "0 of 5 steps" in done.output
    assert "fails again: faulty failed in its initialize" in done.output


def test_an_interface_that_is_gone_or_changed(plain: Build, tmp_path: Path) -> None:
    path = saved(plain, tmp_path, "abort")
    kept = Case.load(path)
    gone = Case(**{**kept.__dict__, "interface": str(tmp_path / "gone.toml:fast")})
    done = case(gone.save(tmp_path / "gone.npz"))
    assert done.exit_code == 2
    assert f"the interface file {tmp_path}/gone.toml of the case does not exist" in done.output
    changed = write_faulty(tmp_path)
    changed.write_text(changed.read_text().replace("x = {}", "x = {}\nz = {}"))
    other = Case(**{**kept.__dict__, "interface": str(changed)})
    done = case(other.save(tmp_path / "other.npz"))
    assert done.exit_code == 2
    assert "now has the inputs fault, x, z, but the case has fault, x" in done.output


def test_round_trip(plain: Build, tmp_path: Path) -> None:
    kept = Case.load(saved(plain, tmp_path, "null"))
    odd = np.array([[np.nan, -0.0], [np.inf, 5e-324]])
    one = Case(**{**kept.__dict__, "inputs": odd, "tags": np.array([[0, 1], [2**62, 3]])})
    again = Case.load(one.save(tmp_path / "deep" / "one.npz"))
    assert again.inputs.tobytes() == odd.tobytes()
    assert again.tag == Tag(2**62, 3)
    assert (again.names, again.error, again.kind) == (kept.names, kept.error, "plain")


def test_files_that_are_no_cases(tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    with pytest.raises(CaseError, match="does not exist"):
        Case.load(path)
    np.savez(path, tags=np.zeros((1, 2)))
    with pytest.raises(CaseError, match="is not a case"):
        Case.load(path)
    about = np.array(json.dumps({"interface": 1}))
    np.savez(path, tags=np.zeros((1, 2)), inputs=np.zeros((1, 1)), about=about)
    with pytest.raises(CaseError, match="is not a case"):
        Case.load(path)
    np.savez(path, tags=np.array([object()]), inputs=np.zeros((1, 1)), about=about)
    with pytest.raises(CaseError, match="is not a case"):
        Case.load(path)  # nothing is unpickled
    path.write_bytes(b"PK\x03\x04" + bytes(50))
    with pytest.raises(CaseError, match="is not a case"):
        Case.load(path)
    path.write_bytes(b"")
    with pytest.raises(CaseError, match="is not a case"):
        Case.load(path)
    path.write_text('name = "pid"\n', encoding="utf-8")
    with pytest.raises(CaseError) as told:
        Case.load(path)  # what NumPy says of it is about pickles
    assert str(told.value) == f"{path} is not a case of rtsim sil; give a file cases/*.npz"


def test_c_outside_the_project_takes_the_users_word(
    plain: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(plain, tmp_path, "abort")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    refused = CliRunner().invoke(sil, ["case", str(path)])
    assert refused.exit_code == 2
    assert "which rtsim does not compile: the file is not in the current project" in refused.output
    assert "--trust" in refused.output
    monkeypatch.chdir(plain.interface.path.parent)
    assert CliRunner().invoke(sil, ["case", str(path)]).exit_code == 1

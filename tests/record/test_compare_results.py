"""The page and the JUnit file of a comparison."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from click.testing import CliRunner

from rtsim import Model, PythonController, Scenario, Signal, Signals, simulate
from rtsim.cli.main import main
from rtsim.core.signals import Vector
from rtsim.record.comparison import compare
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.reports.comparison_pages import MOST_PLOTS, comparison_page
from rtsim.record.reports.junit import comparison_junit
from rtsim.record.reports.view_charts import Values, _difference


def turn(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[:] = p[0]


def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = u[0]


def scenario(rate: float, many: int = 3) -> Scenario:
    out = Scenario("<turning>", until=1)
    states = Signals(*(Signal(f"x{i}", "m") for i in range(many)), Signal("a", "deg", kind="angle"))
    model = Model("cart", states, turn, parameters=Signals(Signal("rate", initial=rate)))
    out.plant("cart", model, step=0.1)
    law_ = PythonController(law, Signals("x [m]"), Signals("y [m]"))
    out.controller("echo", law_, period=0.5, inputs={"x": "cart.x0"})
    return out


def recorded(path: Path, rate: float, many: int = 3, until: float = 1) -> Path:
    simulate(scenario(rate, many), until=until, recorder=FileRecorder(path))
    return path


def killed() -> Recording:
    """Return what a run leaves that is killed after 0.5 s."""
    half = simulate(scenario(1.0), stop_ns=500_000_000).recording()
    return replace(half, footer=None, truncated="the run was cut off")


@pytest.fixture
def both(tmp_path: Path) -> tuple[Recording, Recording]:
    a, b = recorded(tmp_path / "a.mcap", 1.0), recorded(tmp_path / "b.mcap", 1.5)
    return Recording.open(a), Recording.open(b)


def cases(text: str) -> dict[tuple[str, str], list[str]]:
    """Return what each test case says: the names of its elements."""
    root = ET.fromstring(text.partition("\n")[2])
    return {
        (case.get("classname", ""), case.get("name", "")): [part.tag for part in case]
        for case in root.iter("testcase")
    }


def test_junit_has_a_case_for_each_signal_and_one_for_the_stamps_of_a_track(
    both: tuple[Recording, Recording],
) -> None:
    found = cases(comparison_junit(compare(*both), "a and b"))
    assert found == {
        ("compare.cart", "x0"): ["failure"], ("compare.cart", "x1"): ["failure"],
        ("compare.cart", "x2"): ["failure"], ("compare.cart", "a"): ["failure"],
        ("compare.messages/echo", "y"): ["failure"],
        ("compare.messages/echo.inputs", "x"): ["failure"],
        ("compare.messages/echo", "(times and stamps)"): [],
        ("compare.messages/echo.inputs", "(times and stamps)"): [],
        ("compare", "(the outcome is decided)"): [],
    }  # fmt: skip
    same = cases(comparison_junit(compare(both[0], both[0]), "a and a"))
    assert same.keys() == found.keys()
    assert not any(same.values())


def test_junit_of_an_undecided_comparison_is_an_error(tmp_path: Path) -> None:
    whole = Recording.open(recorded(tmp_path / "a.mcap", 1.0))
    cut = killed()
    result = compare(cut, whole)
    assert result.why
    found = cases(comparison_junit(result, "x"))
    assert found["compare", "(the outcome is decided)"] == ["error"]
    assert [what for what in found.values() if what] == [["error"]]


def test_a_difference_of_stamps_fails_their_case(tmp_path: Path) -> None:
    a = recorded(tmp_path / "a.mcap", 1.0)
    later = scenario(1.0)
    later.replace_controller("echo", PythonController(law, Signals("x [m]"), Signals("y [m]")),
                             latency="0.01")  # fmt: skip
    b = simulate(later).recording()
    found = cases(comparison_junit(compare(Recording.open(a), b), "x"))
    assert found["compare.messages/echo", "(times and stamps)"] == ["failure"]


def test_the_page_leads_with_the_verdict(both: tuple[Recording, Recording]) -> None:
    said: list[str] = []
    text = comparison_page(compare(*both), *both, said.append)
    head, _, rest = text.partition("</header>")
    assert "The recordings differ" in head
    assert "6 of " in head
    assert said[-1] == "plot 6 of 6"
    assert rest.count("<figure class=chart>") == 2 * 6, "values and differences"
    assert "src=" not in rest.replace("Plotly", ""), "the page needs no network"
    same = comparison_page(compare(both[0], both[0]), both[0], both[0])
    assert "The recordings agree" in same
    assert "differ from" not in same


def test_the_page_of_an_undecided_comparison_does_not_say_that_they_agree(
    both: tuple[Recording, Recording],
) -> None:
    cut = killed()
    text = comparison_page(compare(cut, both[0]), cut, both[0])
    assert "The comparison is undecided" in text
    assert "The recordings agree" not in text


def test_many_signals_are_not_all_drawn(tmp_path: Path) -> None:
    a = Recording.open(recorded(tmp_path / "a.mcap", 1.0, many=30))
    b = Recording.open(recorded(tmp_path / "b.mcap", 2.0, many=30))
    text = comparison_page(compare(a, b), a, b)
    assert text.count("<figure class=chart>") == 2 * MOST_PLOTS
    assert f"The other {33 - MOST_PLOTS} signals" in text


def test_angles_differ_by_the_shorter_way() -> None:
    ns = np.array([1, 2, 5])
    first = Values("a", ns, np.array([179.0, -170.0, 0.0]))
    other = Values("b", np.array([1, 2, 4]), np.array([-179.0, 170.0, 0.0]))
    at, gap = _difference(first, other, Signal("a", "deg", kind="angle"))
    assert at.tolist() == [1e-9, 2e-9]
    assert gap.tolist() == [2.0, -20.0]
    assert _difference(first, other, Signal("a", "deg"))[1].tolist() == [-358.0, 340.0]


def test_the_command_writes_both_files_and_keeps_its_exit_status(tmp_path: Path) -> None:
    a, b = recorded(tmp_path / "a.mcap", 1.0), recorded(tmp_path / "b.mcap", 1.5)
    page, xml = tmp_path / "x.html", tmp_path / "x.xml"
    options = ["--html", str(page), "--junit", str(xml)]
    done = CliRunner().invoke(main, ["compare", str(a), str(b), *options])
    assert done.exit_code == 1, done.output
    assert "The recordings differ" in page.read_text()
    assert "failure" in xml.read_text()
    done = CliRunner().invoke(main, ["compare", str(a), str(a), *options])
    assert done.exit_code == 0, done.output
    assert "The recordings agree" in page.read_text()


@pytest.mark.parametrize("option", ["--html", "--junit"])
def test_a_file_that_cannot_be_written_is_named(option: str, tmp_path: Path) -> None:
    a = recorded(tmp_path / "a.mcap", 1.0)
    wrong = str(tmp_path / "missing" / "x")
    done = CliRunner().invoke(main, ["compare", str(a), str(a), option, wrong])
    assert done.exit_code == 2
    assert option in done.output
    kept = tmp_path / "notes.txt"
    kept.write_text("mine")
    if option == "--html":
        done = CliRunner().invoke(main, ["compare", str(a), str(a), option, str(kept)])
        assert done.exit_code == 2
        assert kept.read_text() == "mine"

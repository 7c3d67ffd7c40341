"""``rtsim pitl``, ``pitl`` and the fixtures: on an emulated board, and what keeps one from it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import cast
from xml.etree import ElementTree as ET

import pytest
from back_to_back_parts import write_law
from click.testing import CliRunner, Result
from emulated_board_parts import need
from junit_schema import valid
from pitl_parts import FakeBoard, Host, as_float

from hitl import pitl
from hitl.boards import BoardError, emulators
from hitl.boards.avr import UNO
from hitl.boards.description import Emulator
from hitl.comparison.back_to_back import compare_chain
from hitl.comparison.conditions import ComparisonRequest, ProgressWatch, Stage
from hitl.comparison.on_boards import check_processor, stages
from hitl.contexts import BoardUnderTest
from hitl.interface import InterfaceError, load_interface
from hitl.results.columns import last_of
from rtsim.cli import main
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError
from rtsim.models.unstable import controller, scenario
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.runs.simulation import Progress

LAW = {"controller": "firmware/core/unstable_control.toml:single"}
ABSENT = "serial:///dev/rtsim-none"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _nothing_flies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake is told before the design has flown."""
    monkeypatch.setattr("hitl.comparison.conditions.run", lambda *_, **__: pytest.fail("flew"))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["pitl", *map(str, arguments)])


# -- on an emulated board


def test_the_f16_flies_on_a_board_with_nothing_else_typed() -> None:
    need("avr8js")
    result = run("f16", "--set", "case=13.1", "--until", 0.2)
    assert result.exit_code == 0, result.output
    for part in (
        "autopilot on board:uno: protocol 1", "firmware shipped with rtsim", "double of 4 bytes",
        "500000 baud (+0.0 %)\nbefore the first step: request 96 bytes",
        "fits the period of 20.000 ms", "bit-identical", "autopilot (host C)",
        "autopilot (board)", "max observed",
        "time of an exchange, target clock", "late 0, missed 0, repeated 0",
        "the host C does what its reference model does, and the board does what the host C does, "
        "in open",
    ):  # fmt: skip
        assert part in result.output, part
    assert "WCET" not in result.output


@pytest.mark.long
def test_a_period_shorter_than_an_exchange_is_a_reservation_that_strict_refuses() -> None:
    """The interface file has ``any_period``; the period that counts is the scenario's, of 1 ms."""
    need("avr8js")
    for strict, status in (((), 0), (("--strict",), 1)):
        result = run("f16", "--set", "case=13.1", "--set", "rate=1000", "--until", 0.02, *strict)
        assert result.exit_code == status, result.output
        assert result.output.count("does not fit the period of 1.000 ms") == 2
        verdict = result.output.splitlines()[-1]
        assert "the board does what the host C does, in open and in closed loop; but " in verdict
        assert "an exchange of autopilot with the board takes up to 3." in verdict
        assert "longer than its period of 1 ms" in verdict


@pytest.mark.long
def test_the_rate_of_a_pico_is_that_of_its_own_uart() -> None:
    need("rp2040js")
    result = run("unstable", "--board", "board:pico", "--until", 0.05, "--latency", 0.002)
    assert "\n2000000 baud (+0.0 %)\n" in result.output
    assert "off at the board" not in result.output


@pytest.mark.long
def test_what_is_asked_is_written_and_told(tmp_path: Path) -> None:
    need("avr8js")
    files = ("--junit", "r.xml", "--html", "r.html", "-o", "r.mcap")
    result = run("unstable", "--until", 0.3, *files, "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["outcome"], told["exit_status"], told["why"]) == ("passed", 0, None)
    assert told["columns"] == ["design", "host C", "board"]
    assert told["firmware"]["controller"]["flash_bytes"] > 1000
    board = told["pairs"][1]
    assert board["closed"]["targets"]["controller"]["url"] == "board:uno"
    assert board["closed"]["late"] == 0
    valid(ET.parse("r.xml").getroot())
    assert "processor cycles of a step" in Path("r.html").read_text()
    recorded = Recording.open("r.mcap")
    assert recorded.header["scenario"]["name"] == "unstable"
    assert "BoardController" in json.dumps(recorded.header)
    assert not (tmp_path / "cases").exists()


def test_requirements_are_checked_on_the_three_runs() -> None:
    need("avr8js")
    near = ("--require", "NEAR: always abs(plant.x) < 1.5 m")
    low = ("--require", "LOW: always plant.x < 0.9 m")
    result = run("unstable", "--until", 0.2, *near, *low, "--junit", "r.xml", "-o", "r.mcap")
    assert result.exit_code == 1, result.output
    assert result.output.splitlines()[-1].endswith(
        "in open and in closed loop; the run with the reference model already violates LOW; the "
        "run with the host C violates LOW; the run with the board violates LOW"
    )
    root = ET.parse("r.xml").getroot()
    valid(root)
    assert (root.get("failures"), root.get("errors")) == ("3", "0")
    checked = CliRunner().invoke(main, ["check", "r.mcap"])
    assert checked.exit_code == 1, checked.output
    assert "LOW" in checked.output


@pytest.mark.long
def test_two_runs_agree_to_the_cycle_and_a_late_answer_is_a_result() -> None:
    need("avr8js")
    first, second = (pitl("unstable", LAW, until=0.3) for _ in range(2))
    one, other = (last_of(result.pairs)["controller"] for result in (first, second))
    first.assert_ok()
    assert one.cycles.tolist() == other.cycles.tolist()
    assert one.exchange is not None
    assert other.exchange is not None
    assert one.exchange.took_ns.tolist() == other.exchange.took_ns.tolist()
    assert one.exchange.min > one.wire_ns, "the wire alone takes that"
    # What the slowest exchange takes is enough for all; half of it is for none.
    enough = pitl("unstable", LAW, until=0.3, latency=one.exchange.max / 1e9 + 1e-5)
    enough.assert_ok()
    short = pitl("unstable", LAW, until=0.3, latency=one.exchange.min / 2e9)
    assert not short
    flight = short.pairs[-1].flight
    assert flight is not None
    assert flight.late == 3
    assert "allow more time, such as --latency 0.00" in short.in_words


def test_a_bound_of_zero_fails_with_its_page(tmp_path: Path) -> None:
    """The host in float is not the design in double; the board is the host."""
    need("avr8js")
    page = tmp_path / "page.html"
    result = pitl("unstable", LAW, until=0.3, tolerances={"*": (0, 0)}, page=page, closed=False)
    assert [pair.ok for pair in result.pairs] == [False, True]
    with pytest.raises(AssertionError, match=r"page: .*page\.html"):
        result.assert_ok()
    assert "board" in page.read_text()


@pytest.mark.long
def test_the_fixtures_run_on_the_sessions_board(tmp_path: Path) -> None:
    need("avr8js")
    (tmp_path / "test_board.py").write_text(
        f"LAW = {LAW!r}\n"
        "def test_it_flies(pitl):\n"
        "    pitl('unstable', LAW, until=0.2).assert_ok()\n"
        "def test_it_is_met(board):\n"
        "    link = board.open(LAW['controller'])\n"
        "    link.send(b'\\0')\n"
        "    assert board.emulated\n"
        "def test_a_bound_of_zero(pitl):\n"
        "    pitl('unstable', LAW, until=0.3, closed=False, tolerances={'*': (0, 0)}).assert_ok()\n"
    )
    told = pytest_in(tmp_path, "-q", f"--basetemp={tmp_path / 'base'}")
    assert "1 failed, 2 passed" in told, told
    assert "pitl-1.html" in told
    assert (tmp_path / "base" / "test_a_bound_of_zero0" / "pitl-1.html").is_file()
    told = pytest_in(tmp_path, "-q", f"--board={ABSENT}")
    assert "3 failed" in told
    assert "cannot open serial port /dev/rtsim-none" in told


def pytest_in(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout


def test_what_a_board_opens_is_closed_with_it() -> None:
    need("avr8js")
    from contextlib import ExitStack

    with ExitStack() as stack:
        link = BoardUnderTest("board:uno", stack).open(LAW["controller"])
        link.send(b"\0")
    with pytest.raises(BoardError):
        link.send(b"\0")


# -- mistakes


@pytest.mark.usefixtures("_nothing_flies")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("f16", "-c", "autopilot=firmware/core/f16_control.toml"),
            "type: f16_control.toml:single",
        ),
        (("f16", "-c", "firmware/core/f16_control.toml:single"), "names no controller, and the"),
        (("f16", "--pace", 1), "give --latency 0.01 (latency=0.01), or run with --pace max"),
        (("unstable", "--pace", 1), "give --latency 0.05 (latency=0.05)"),
        (("f16", "--board", ABSENT), "cannot open serial port /dev/rtsim-none"),
        (("f16", "--board", "board:mega"), "unknown board 'mega'; known: uno"),
        (
            ("f16", "--board", ABSENT, "--firmware", "a.hex"),
            "is a real board, which runs the firmware that it was flashed with",
        ),
        (("f16", "--firmware", "no.hex"), "no.hex"),
        (("valves",), "-c valve21=pid.toml"),
        (("f16", "--html", "no/r.html"), "the folder no for"),
        (("f16", "--open-only", "-o", "r.mcap"), "--open-only"),
        (("f16", "--faults", "no.toml"), "no.toml"),
    ],
)
def test_mistakes_have_status_2_before_anything_flies(
    arguments: tuple[object, ...], text: str
) -> None:
    if "no.hex" in arguments:
        need("avr8js")
    result = run(*arguments, "--until", 1)
    assert result.exit_code == 2, result.output
    assert text in result.output, result.output
    assert "Traceback" not in result.output


@pytest.mark.usefixtures("_nothing_flies")
def test_a_reset_that_a_real_board_cannot_be_made_to_do_is_told_before_anything_flies() -> None:
    reset = {"name": "r", "where": "autopilot.board", "kind": "board_reset", "at": 0.1}
    Path("f.toml").write_text("[[fault]]\n" + "".join(f"{k} = {v!r}\n" for k, v in reset.items()))
    result = run("f16", "--board", ABSENT, "--faults", "f.toml", "--until", 1)
    assert result.exit_code == 2, result.output
    assert f"fault r: the board at {ABSENT} cannot be reset by the host" in result.output
    with pytest.raises(ScenarioError, match="run on board:uno"):
        pitl("f16", {"autopilot": "firmware/core/f16_control.toml:single"}, board=ABSENT,
             faults=reset)  # fmt: skip


@pytest.mark.usefixtures("_nothing_flies")
def test_without_an_emulator_what_to_type_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> list[str | Path]:
        raise BoardError("avr8js is not here; type: rtsim board install")

    monkeypatch.setitem(cast("dict[str, Emulator]", UNO.emulators), "avr8js", Emulator(absent))
    result = run("f16", "--until", 1)
    assert result.exit_code == 2
    assert emulators.GET_AVR8JS in result.output


@pytest.mark.usefixtures("_nothing_flies")
def test_in_real_time_pyserial_is_missed_before_anything_flies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The emulated board is behind a port then, which the flight opens last of all."""
    monkeypatch.setitem(sys.modules, "serial", None)
    result = run("f16", "--pace", 1, "--latency", 0.01, "-o", "r.mcap")
    assert result.exit_code == 2, result.output
    assert result.output == (
        "Error: a serial port needs pyserial; type: pip install 'rtsim[pitl]'\n"
    )


@pytest.mark.usefixtures("_nothing_flies")
def test_a_fault_of_an_unknown_controller_is_told_before_the_board_is_met(tmp_path: Path) -> None:
    need("avr8js")
    file = tmp_path / "faults.toml"
    file.write_text('[[fault]]\nname = "x"\nkind = "board_reset"\nwhere = "autopilt.board"\n')
    result = run("f16", "--until", 1, "--faults", file)
    assert result.exit_code == 2
    said = "faults.toml:4: fault x: unknown controller 'autopilt'; did you mean autopilot?\n"
    assert result.output.endswith(said)
    assert "autopilot on board:uno" not in result.output


class Gone(FakeBoard):
    """Met once more than it is there."""

    def fresh(self) -> FakeBoard:
        raise BoardError("it was unplugged")


def test_a_board_that_is_gone_when_it_is_to_fly_is_a_result(tmp_path: Path) -> None:
    """And not a recording that is not there."""
    path = tmp_path / "flight.mcap"
    stepped = FakeBoard(controller(), as_float, tmp_path)
    gone = Gone(controller(), as_float, tmp_path)
    both = [
        Stage("host C", {"controller": Host(controller(), as_float)}),
        Stage("board", {"controller": stepped}, {"controller": gone}),
    ]
    with FileRecorder(path, stopwatch) as recorder:
        result = compare_chain(scenario(), both, ComparisonRequest(until=0.3, recorder=recorder))
        assert not recorder.started
    assert "board - host C, closed loop: it was unplugged" in result.in_words
    assert not path.exists()


def test_one_real_board_carries_one_controller() -> None:
    two = dict.fromkeys(("left", "right"), LAW["controller"])
    with pytest.raises(
        ScenarioError, match=r"can run only one controller, but left, right are given"
    ):
        stages(two, ABSENT)


def test_a_type_that_no_variant_makes_fit_is_told_as_it_is(tmp_path: Path) -> None:
    path = write_law(tmp_path)
    with pytest.raises(InterfaceError, match=r"use float32, or a variant with real"):
        check_processor(load_interface(path))


def test_an_interrupt_leaves_the_recording(tmp_path: Path) -> None:
    """While the board flies; the flights below it are in memory."""
    stage = [""]

    def interrupt(progress: Progress) -> None:
        if stage[0] == "run with the board" and progress.ns > 500_000_000:
            signal.raise_signal(signal.SIGINT)

    path = tmp_path / "flight.mcap"
    both = [
        Stage("host C", {"controller": Host(controller(), as_float)}),
        Stage("board", {"controller": FakeBoard(controller(), as_float, tmp_path)}),
    ]
    watch = ProgressWatch(phase=lambda text: stage.__setitem__(0, text), flight=interrupt)
    with (
        FileRecorder(path, stopwatch) as recorder,
        pytest.raises(KeyboardInterrupt, match="interrupted at"),
    ):
        compare_chain(scenario(), both, ComparisonRequest(until=3, recorder=recorder, watch=watch))
    left = Recording.open(path)
    assert not left.truncated
    assert left.footer is not None
    assert left.footer["reason"] == "interrupted"
    assert 0.4e9 < left.end_ns < 3e9

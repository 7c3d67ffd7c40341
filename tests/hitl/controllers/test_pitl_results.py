"""Three columns: design, host C and board, each held against the one before, on every output."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from back_to_back_parts import dies_at, from_step
from junit_schema import valid
from pitl_parts import CLOCK_HZ, FakeBoard, Host, as_float, chain_of
from rich.console import Console

from hitl.boards.paced import Timing
from hitl.comparison.back_to_back import compare_chain
from hitl.comparison.conditions import ComparisonRequest, ProgressWatch, Stage
from hitl.comparison.execution import OnTarget
from hitl.comparison.verdict import ComparisonChain
from hitl.results.columns import bars, facts, histogram, last_of
from hitl.results.junit import junit_xml
from hitl.results.page import render
from hitl.results.table import Tables
from rtsim.components.controller import ControllerProtocol
from rtsim.core.errors import OverrunError, ScenarioError
from rtsim.core.signals import Vector
from rtsim.core.tag import Period, Tag
from rtsim.models.unstable import controller, scenario
from rtsim.record.markup import duration
from rtsim.scenario.standard_components import ControllerComponent

STEPS = 31


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("boards")


@pytest.fixture(scope="module")
def equal(folder: Path) -> ComparisonChain:
    """A board that says bit for bit what the host does, which rounds to float32."""
    return chain_of(folder, as_float, as_float, tolerances={"*": (1e-6, 1e-6)})


@pytest.fixture(scope="module")
def wrong(folder: Path) -> ComparisonChain:
    """A board that is right until step 9."""
    return chain_of(folder, board=from_step(9, lambda y: y + 0.125))


def shown(result: ComparisonChain, width: int = 200) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(Tables(result), crop=False)
    return out.getvalue()


# -- verdicts


def test_each_is_held_against_the_one_before(wrong: ComparisonChain) -> None:
    host, board = wrong.pairs
    assert wrong.names == ("design", "host C", "board")
    assert (host.ok, board.ok, wrong.ok) == (True, False, False)
    loop = board.open["controller"]
    assert np.array_equal(loop.design, host.open["controller"].translation)
    assert loop.first is not None
    assert loop.first.step == 9
    assert loop.signals[0].first_step == 9
    assert loop.signals[0].max_abs == 0.125
    assert host.open["controller"].signals[0].first_step is None
    assert board.flight is not None
    assert host.flight is not None
    assert board.flight.baseline is host.flight.candidate
    with pytest.raises(AssertionError, match=r"the board does not do what the host C does\n") as e:
        wrong.assert_ok()
    assert "board - host C, open loop: controller.force at step 9 (0.9 s): host C " in str(e.value)
    assert "board - host C, closed loop: " in str(e.value)
    assert "the host C does what its reference model does" in str(e.value)


def test_what_all_agree_in_is_said(equal: ComparisonChain) -> None:
    equal.assert_ok()
    assert equal.in_words.endswith(
        "the host C does what its reference model does, and the board does what the host C does, "
        "in open and in closed loop"
    )
    host, board = (pair.open["controller"].signals[0] for pair in equal.pairs)
    assert host.first_step is not None
    assert 0 < host.max_abs < 1e-6
    assert (board.first_step, board.max_abs) == (None, 0.0)


def test_a_host_that_fails_fails_all_though_the_board_agrees(folder: Path) -> None:
    change = from_step(3, lambda y: -y)
    result = chain_of(folder, change, change)
    assert [pair.ok for pair in result.pairs] == [False, True]
    assert not result.ok
    assert "and the board does what the host C does" in result.in_words.splitlines()[0]


def test_a_board_that_dies_is_a_result(folder: Path) -> None:
    result = chain_of(folder, board=dies_at(5))
    board = result.pairs[-1]
    assert board.open["controller"].answered == 5
    assert board.flight is not None
    assert "SIGFPE" in board.flight.error
    assert board.flight.targets["controller"].stack == 123, "of a flight that an error ended"
    assert "SIGFPE" in junit_xml(result)
    assert "the run with the board ends" in shown(result)


def test_a_tolerance_holds_for_both_pairs(folder: Path) -> None:
    off = from_step(0, lambda y: y + 0.6e-3)
    twice = from_step(0, lambda y: y + 1.2e-3)
    rules = {"force": (1e-3, 0.0)}
    assert chain_of(folder, off, twice, tolerances=rules, closed=False).ok
    assert not chain_of(folder, off, off, tolerances={"force": (1e-4, 0.0)}, closed=False).ok


def test_units_that_an_interface_leaves_open_are_those_of_the_design(folder: Path) -> None:
    """The lower side of the second pair is a translation, too."""
    from rtsim.core.signals import Signals

    bare = Signals("force")
    stages = [
        Stage("host C", {"controller": Host(controller(), as_float, bare)}),
        Stage("board", {"controller": FakeBoard(controller(), as_float, folder, bare)}),
    ]
    result = compare_chain(
        scenario(), stages, ComparisonRequest(until=1, tolerances={"*": (1e-6, 1e-6)})
    )
    assert [p.open["controller"].signals[0].unit for p in result.pairs] == ["N/kg"] * 2
    result.assert_ok()


def test_what_flies_may_be_another_than_what_steps(folder: Path) -> None:
    stepped, flown = (FakeBoard(controller(), as_float, folder) for _ in range(2))
    flown.url, flown.paced = "board:paced", True
    host = Stage("host C", {"controller": Host(controller(), as_float)})
    met: list[object] = []
    watch = ProgressWatch(met=lambda name, one: met.append((name, getattr(one, "url", None))))
    stages = [host, Stage("board", {"controller": stepped}, {"controller": flown})]
    result = compare_chain(
        scenario(), stages, ComparisonRequest(until=1, tolerances={"*": (1e-6, 1e-6)}, watch=watch)
    )
    board = result.pairs[-1]
    assert board.open["controller"].target is not None
    assert board.open["controller"].target.url == "board:fake"
    assert board.flight is not None
    assert board.flight.targets["controller"].url == "board:paced"
    assert ("controller", "board:fake") in met
    assert ("controller", "board:paced") in met


def test_real_time_on_a_board_needs_a_latency(folder: Path) -> None:
    class Outside(FakeBoard):
        outside = True

    board: ControllerProtocol = Outside(controller(), as_float, folder)
    stages = [Stage("host C", {"controller": Host(controller(), as_float)})]
    stages.append(Stage("board", {"controller": board}))
    with pytest.raises(ScenarioError, match=r"runs on a board.* give --latency 0\.05"):
        compare_chain(scenario(), stages, ComparisonRequest(pace=1.0))


# -- what a board measured


def test_figures_of_the_target_are_those_of_its_cycles(equal: ComparisonChain) -> None:
    target = last_of(equal.pairs)["controller"]
    assert target.execution is not None
    assert target.exchange is not None
    assert (target.execution.clock, target.exchange.clock) == ("target clock", "target clock")
    assert target.cycles.tolist() == [20_000 + k for k in range(STEPS)]
    assert (target.execution.max_step, target.execution.steps) == (STEPS - 1, STEPS)
    assert target.execution.max == (20_000 + STEPS - 1) * 1_000_000_000 // CLOCK_HZ
    assert target.execution.share == target.execution.max / 1e8
    assert target.budget.execution_ns == target.execution.max
    host = equal.pairs[0].open["controller"].execution
    assert host is not None
    assert host.clock == "host time"


def test_whose_clock_an_exchange_is_of(folder: Path) -> None:
    """Where somebody waited for the answer; else what is known of it."""
    modelled = "modelled by execution, firmware and wire time"
    for url, paced, clock in (
        ("board:uno", False, "target clock"),
        ("board:uno", True, modelled),
        ("serial:///dev/ttyACM0", False, "host time"),
        ("serial:///dev/ttyACM0", True, modelled),
    ):
        prototype = FakeBoard(controller(), as_float, folder)
        prototype.url, prototype.paced = url, paced
        board = prototype.fresh()
        board.exchange_ns.append(50_000_000)
        board.took_ns.append(60_000)
        target = OnTarget.of(board, Period.of("1/10"))
        assert target is not None
        assert target.exchange is not None
        assert target.execution is not None
        assert (target.exchange.clock, target.execution.clock) == (clock, "target clock")
        taken = "an answer is read when it is due" in facts(target)["wire"]
        assert taken == paced
        alone = target.wire_ns + target.budget.handling_ns
        assert target.exchange.max == (60_000 + alone if paced else 50_000_000)
        told = target.to_json()["exchange"]
        assert told["clock"] == clock.split()[0]
        assert told["max_observed_ns"] == target.exchange.max


def timed(
    folder: Path, exchange_ns: int, period: Period | None = None, **how: bool | str
) -> OnTarget:
    """One step of 60 us; by hand, the frames take 1.5 ms at 500 kbit/s, the firmware 0.2 ms."""
    prototype = FakeBoard(controller(), as_float, folder)
    prototype.url, prototype.paced = str(how.get("url", "board:uno")), bool(how.get("paced"))
    board = prototype.fresh()
    board.budget = replace(board.budget, request_ns=900_000, reply_ns=600_000, handling_ns=200_000)
    board.took_ns.append(60_000)
    board.exchange_ns.append(exchange_ns)
    target = OnTarget.of(board, period)
    assert target is not None
    return target


@pytest.mark.parametrize(
    ("period", "fits"),
    [("0.00176", True), ("0.001759999", False), ("1/568", True), ("1/569", False), ("1/10", True)],
)
def test_an_exchange_of_the_longest_frames_has_to_fit_the_period_of_the_scenario(
    folder: Path, period: str, fits: bool
) -> None:
    """The interface file's period of 0.1 s counts only where the scenario has none."""
    target = timed(folder, 1_700_000, Period.of(period))
    assert target.budget.holds is fits
    assert (target.too_long("law") == "") is fits
    assert not timed(folder, 1_700_000).too_long("law")


def test_a_longer_exchange_counts_if_the_board_measured_it(folder: Path) -> None:
    """In real time, and at a real board, waiting is no time of the exchange."""
    period = Period.of("1/500")
    said = timed(folder, 2_500_000, period).too_long("law")
    assert said.startswith("an exchange of law with the board takes up to 2.5 ms, longer than its ")
    assert "period of 2 ms" in said
    assert timed(folder, 2_000_001, period).too_long("law")
    assert not timed(folder, 2_000_000, period).too_long("law")
    assert not timed(folder, 2_000_001, period, paced=True).too_long("law")
    assert not timed(folder, 2_000_001, period, url="serial:///dev/ttyACM0").too_long("law")
    fast = Period.of("1/1000")
    for how in ({"paced": True}, {"url": "serial:///dev/ttyACM0"}):
        assert "up to 1.76 ms" in timed(folder, 500_000, fast, **how).too_long("law")


@pytest.mark.parametrize("closed", [False, True])
def test_an_exchange_longer_than_the_period_is_a_reservation_for_strict(
    folder: Path, closed: bool
) -> None:
    """The exchange of 3.25 ms is four periods of 0.8 ms; the values agree."""
    fast = scenario()
    fast.of(ControllerComponent)["controller"].period = Period.of("1/1250")
    stages = [
        Stage("host C", {"controller": Host(controller(), as_float)}),
        Stage("board", {"controller": FakeBoard(controller(), as_float, folder)}),
    ]
    result = compare_chain(
        fast, stages, ComparisonRequest(until=0.01, tolerances={"*": (1e-6, 1e-6)}, closed=closed)
    )
    assert result.ok
    (doubt,) = result.doubts
    assert doubt.startswith("an exchange of controller with the board takes up to 3.25")
    assert "longer than its period of 800 us" in doubt
    assert result.in_words.endswith(f"; but {doubt}")
    assert doubt in result.pairs[-1].unexercised
    assert not result.pairs[0].doubts


def test_a_latency_longer_than_the_period_is_a_reservation_of_the_closed_loop(folder: Path) -> None:
    slow, fine, stepped = (
        chain_of(folder, tolerances={"*": (10, 0)}, latency=latency, closed=closed)
        for latency, closed in ((0.11, True), (0.1, True), (0.11, False))
    )
    assert slow.ok
    (doubt,) = slow.doubts
    assert doubt.startswith("controller: a latency of 0.11 s is longer than its period of 0.1 s")
    assert slow.in_words.count(doubt) == 1
    assert not fine.doubts
    assert not stepped.doubts, "the open loop has no latency"


@pytest.mark.parametrize(
    "pacing",
    [None, Timing(wall_ns=2 * 10**9), Timing(wall_ns=2 * 10**9, slips=3, slipped_ns=412_000_000)],
)
def test_late_in_real_time_is_not_blamed_on_the_longest_wait(
    folder: Path, pacing: Timing | None
) -> None:
    """Nor on the board where its emulator was held up."""

    class Slow(FakeBoard):
        slept = False

        def fresh(self) -> FakeBoard:
            out = Slow(self.law, self.change, self.folder)
            out.board, out.paced, out.pacing = out.greeting, True, pacing
            return out

        def receive(self, tag: Tag, patience: float) -> Vector | None:
            if self.step == 9 and not self.slept:
                self.slept = True
                return None
            return super().receive(tag, patience)

    stages = [Stage("host C", {"controller": Host(controller(), as_float)})]
    stepped, flown = (kind(controller(), as_float, folder) for kind in (FakeBoard, Slow))
    stages.append(Stage("board", {"controller": stepped}, {"controller": flown}))
    slow = compare_chain(
        scenario(), stages, ComparisonRequest(until=2, latency=0.03, late="hold")
    ).pairs[-1]
    assert slow.flight is not None
    assert slow.flight.late == 1
    target = slow.flight.targets["controller"]
    assert target.exchange is not None
    took = int(target.cycles.max()) * 1_000_000_000 // CLOCK_HZ
    alone = duration(target.wire_ns + target.budget.handling_ns + took)
    told = facts(target).get("pacing", "")
    if pacing is not None and pacing.slips:
        assert "too slow for the emulator, which lost 412 ms against the clock" in slow.explanation
        assert "slipped 3 times, 412.0 ms in total" in told
        assert target.to_json()["pacing"]["slips"] == 3
    else:
        assert (
            f"execution, firmware and wire alone take up to {alone}: allow more time"
            in slow.explanation
        )
        assert bool(told) == (pacing is not None)


@pytest.mark.parametrize("wrong", [False, True])
def test_an_overrun_of_this_host_is_not_the_boards(folder: Path, wrong: bool) -> None:
    """Late answers before it are counted; a difference before it is the board's all the same."""

    class Behind(FakeBoard):
        late = False

        def fresh(self) -> FakeBoard:
            out = Behind(self.law, self.change, self.folder)
            out.board, out.paced = out.greeting, True
            return out

        def receive(self, tag: Tag, patience: float) -> Vector | None:
            if self.step == 12:
                raise OverrunError("1.1 s began 30 ms late; type `rtsim doctor`")
            if self.step == 9 and not self.late:
                self.late = True
                return None
            answer = super().receive(tag, patience)
            return answer if answer is None or not wrong else answer + 1.0

    stages = [Stage("host C", {"controller": Host(controller(), as_float)})]
    stepped, flown = (kind(controller(), as_float, folder) for kind in (FakeBoard, Behind))
    stages.append(Stage("board", {"controller": stepped}, {"controller": flown}))
    result = compare_chain(
        scenario(), stages, ComparisonRequest(until=2, latency=0.03, late="hold")
    )
    flight = result.pairs[-1].flight
    assert flight is not None
    assert (result.ok, flight.held_up, flight.late) == (False, True, 1)
    said = "this host was too slow to say whether the board does what the host C does"
    assert result.in_words.splitlines()[0].endswith(said) != wrong
    explained = "this host, not the board, ended the run early: 1.1 s began 30 ms late; end other"
    assert explained in result.pairs[-1].explanation


def test_bins_hold_all_and_show_each() -> None:
    values = np.array([10, 10, 11, 19, 20])
    rows = histogram(values, 5)
    assert [count for *_, count in rows] == [3, 0, 0, 0, 2]
    assert (rows[0][0], rows[-1][1]) == (10, 20)
    assert histogram([7, 7]) == [(7.0, 7.0, 2)]
    assert histogram([]) == []
    low, *_, high = histogram([10, 20], 5, seen=(0.0, 100.0))
    assert (low[0], high[1]) == (0.0, 100.0)
    lines = list(bars(np.array([1_000_000] * 1000 + [1_000_100])))
    assert len(lines) == 10
    assert lines[-1].endswith("1 █"), "one of a thousand is seen"
    assert len({line.partition(" to ")[0] for line in lines}) == 10


# -- terminal


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_table_names_all_three(wrong: ComparisonChain, width: int) -> None:
    text = shown(wrong, width)
    for name in ("force", "messages/controller.force", "plant.x", "step 9"):
        assert name in text, name
    assert "…" not in text
    if width >= 80:
        assert max(map(len, text.splitlines())) <= width
        for head in ("host C - reference", "board - host C", "from"):
            assert head in text, head
    assert "WCET" not in text


def test_the_table_has_a_column_for_each(equal: ComparisonChain) -> None:
    heads, force = shown(equal).splitlines()[1:3]
    for head in ("reference model ", "host C ", "board ", "tolerance", "verdict"):
        assert head in heads, head
    loop = equal.pairs[0].open["controller"]
    step = loop.signals[0].worst_step
    assert step is not None
    for value in (loop.design[step, 0], loop.translation[step, 0]):
        assert f"{value:.9g}" in force
    assert "bit-identical" in force


def test_the_terminal_tells_what_the_board_said(equal: ComparisonChain) -> None:
    text = shown(equal)
    for part in (
        "build 00c0ffee", "double of 4 bytes", "16 MHz", "fits the period of 100.000 ms",
        "at most 123 bytes", "late 0, missed 0, repeated 2", "20000 to 20030 cycles",
        "Execution time per step", "Time of an exchange, target clock", "max observed", "█",
    ):  # fmt: skip
        assert part in text, part
    assert re.search(r"controller \(host C\) +open +host", text)
    assert re.search(r"controller \(board\) +closed +target", text)


# -- JSON, JUnit, page


def test_json_is_strict_and_holds_each_pair(wrong: ComparisonChain) -> None:
    data = json.loads(json.dumps(wrong.to_json(), allow_nan=False))
    assert data["columns"] == ["design", "host C", "board"]
    host, board = data["pairs"]
    assert (host["ok"], board["ok"], data["ok"]) == (True, False, False)
    assert board["sides"] == ["host C", "board"]
    assert board["open"]["controller"]["first"] == {"signal": "force", "step": 9}
    target = board["closed"]["targets"]["controller"]
    assert target["execution"]["clock"] == "target"
    assert target["execution"]["max_step"] == STEPS - 1
    assert target["exchange"]["steps"] == STEPS
    assert target["board"]["double_bytes"] == 4
    assert target["budget"]["holds"] is True
    assert (target["stack_bytes"], target["repeated"]) == (123, 2)
    assert host["open"]["controller"]["execution"]["clock"] == "host"
    assert host["open"]["controller"]["target"] is None


def test_junit_has_suites_for_each_pair(wrong: ComparisonChain) -> None:
    root = valid(ET.fromstring(junit_xml(wrong)))
    names = [suite.attrib["name"] for suite in root]
    assert names == [
        f"unstable: {who}: {what}"
        for who in ("host C - reference model", "board - host C")
        for what in ("open loop of controller", "closed loop")
    ]
    failures = [suite.attrib["failures"] for suite in root]
    assert failures[:2] == ["0", "0"]
    assert all(int(count) > 0 for count in failures[2:])
    (failure,) = root[2].iter("failure")
    assert "host C: " in (failure.text or "")
    assert "board: " in (failure.text or "")
    properties = {p.attrib["name"]: p.attrib["value"] for p in root[3].iter("property")}
    assert "at most 123 bytes" in properties["stack of controller"]
    assert "maximum observed" in properties["exchanges of controller"]
    assert "target clock" in properties["execution of controller"]


def test_the_page_draws_all_three_and_what_the_board_took(wrong: ComparisonChain) -> None:
    page = render(wrong)
    text = re.sub(r"<script[^>]*>.*?</script>", "", page, flags=re.DOTALL)
    for part in ("build 00c0ffee", "at most 123 bytes", "board - host C", "bit-identical",
                 "by its own clock", "target clock"):  # fmt: skip
        assert part in text, part
    names = re.findall(r'"name":"([^"]+)"', page)
    for name in ("reference model", "host C", "board", "host C - reference model", "board - host C",
                 "maximum observed", "wire time plus longest step"):  # fmt: skip
        assert name in names, name
    assert "first failure, 0.9 s" in page
    assert "processor cycles of a step, target clock" in page

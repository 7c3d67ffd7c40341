"""Reset and rewind from the window: legs that each replay, and a refusal that says why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from pilot_parts import flight

from rtsim.cli.run_options import RunOptions, Wanted
from rtsim.cli.running import RunSummary, run_segments
from rtsim.core.clock import stopwatch
from rtsim.core.errors import CheckpointError, RecordingError
from rtsim.core.tag import Tag
from rtsim.engine.commands.commands import CommandError, read_command
from rtsim.pilot import shared
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.shared import ANSWER, FREE_NS, MOST_ORDERS
from rtsim.pilot.viewer.state import RunState, Telling
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.record.verdict import what_both_have
from rtsim.runs.replay import rerun
from rtsim.runs.request import Connections, Output, Pace, Progress, RunRequest
from rtsim.runs.result import RunResult
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.testing.clock import FakeClock

MS = 1_000_000
Order = Callable[[Cockpit], object]


def order(kind: int, value: float = 0.0) -> Order:
    return lambda cockpit: Telling(cockpit.shared, _later()).order(kind, value)


def _later() -> Callable[[], int]:
    """A clock in the past of this machine, by which whoever had the stick is long silent."""
    times = iter(range(1, stopwatch(), 2 * FREE_NS))
    return lambda: next(times)


def legs(
    scenario: Scenario,
    folder: Path,
    at: dict[float, Order],
    until: float = 2.0,
    wanted: Wanted | None = None,
    stick: str = "",
) -> tuple[Sequence[RunResult], Cockpit]:
    """Flown as a run with a window is; what is in ``at`` happens once, at those times (s)."""
    left = sorted(at.items())
    with ExitStack() as stack:
        cockpit = stack.enter_context(Cockpit(scenario, stick))

        def observe(progress: Progress) -> None:
            while left and progress.ns >= left[0][0] * 1e9:
                left.pop(0)[1](cockpit)

        live = Connections(cockpit.pictures, observe, cockpit.inbox, FakeClock())
        recorder = FileRecorder(folder / "run.mcap", stopwatch)
        asked = wanted or Wanted(None, (), on_command=True, viewed=True)
        request = RunRequest(
            scenario, pace=Pace(1.0), until=until, output=Output(recorder), live=live
        )
        found = run_segments(request, asked, stack)
    return found.segments, cockpit


def replays(leg: RunResult) -> bool:
    assert leg.path is not None
    recorded = Recording.open(leg.path)
    return compare_exact(recorded, rerun(recorded), prefix=True) is None


def test_reset_begins_anew_and_rewind_goes_back_so_far(tmp_path: Path) -> None:
    script = [(0.2, (0.4, 0.5, 0.0, 0.7)), (0.6, (-0.3, -0.5, 0.2, 0.1))]
    flown, cockpit = legs(
        flight(script), tmp_path,
        {0.8: order(shared.RESET), 1.5: order(shared.REWIND, 0.25), 1.7: order(shared.MARK)},
    )  # fmt: skip
    assert [leg.reason for leg in flown] == ["restored", "restored", "end"]
    assert [leg.began.ns for leg in flown] == [0, 0, 1200 * MS]
    assert all(replays(leg) for leg in flown)
    first, second, last = (Recording.open(leg.path) for leg in flown if leg.path is not None)
    for leg in (second, last):
        assert leg.continues
    assert last.end_ns == 2000 * MS
    (command,) = [e for e in first.events if e.kind == "Command"]
    assert '"restore"' in command.text
    assert 0 < int(command.values["initiated"]) <= int(command.values["completed"])
    assert cockpit.inbox.refused == 0


def test_what_is_flown_again_is_what_was_flown(tmp_path: Path) -> None:
    """The first instant has happened by the checkpoint of the beginning: not twice."""
    scenario = load_scenario("unstable", {"latency": "0.03"})
    flown, _ = legs(scenario, tmp_path, {1.0: order(shared.RESET)})
    first, again = (Recording.open(leg.path) for leg in flown if leg.path is not None)
    both = what_both_have(first, again)
    assert both[2] == Tag(0)
    assert compare_exact(both[0].up_to(900 * MS), both[1].up_to(900 * MS)) is None
    assert again.trace_rows > first.trace_rows > 100
    assert all(replays(leg) for leg in flown)


def test_the_stick_is_where_it_is_after_a_rewind(tmp_path: Path) -> None:
    """Not where it was at the checkpoint: it says so at once, though nobody moves it."""

    def move(pitch: float) -> Order:
        def moved(cockpit: Cockpit) -> None:
            writer = cockpit.shared.writer("stick")
            writer.integers[:] = (stopwatch(), stopwatch(), 0, 0)
            writer.floats[:4] = (pitch, 0.0, 0.0, 0.5)
            writer.publish()

        return moved

    scenario = load_scenario("f16-by-hand", {"step": "0.01"})
    flown, _ = legs(
        scenario, tmp_path, {0.1: move(0.25), 0.5: move(-0.5), 0.8: order(shared.RESET)},
        until=1.2, stick="stick",
    )  # fmt: skip
    assert len(flown) == 2
    assert flown[1].path is not None
    back = Recording.open(flown[1].path)
    assert back.track("inputs/stick").column("pitch")[0] == -0.5
    assert back.track("inputs/stick").ns[0] == 10 * MS
    assert all(replays(leg) for leg in flown)


def test_back_to_the_checkpoint_that_was_kept(tmp_path: Path) -> None:
    """Not to the last one: of those the ring has one each 0.6 s."""
    wanted = Wanted(None, (), on_command=True, rewind="60", viewed=True)
    flown, cockpit = legs(
        flight([], step=0.01), tmp_path,
        {0.1: order(shared.RETURN), 0.2: order(shared.CHECKPOINT), 1.5: order(shared.RETURN)},
        wanted=wanted,
    )  # fmt: skip
    assert cockpit.inbox.refused == 1  # none was kept yet
    assert [leg.reason for leg in flown] == ["restored", "end"]
    assert 200 * MS <= flown[1].began.ns <= 220 * MS
    assert all(replays(leg) for leg in flown)


def test_a_flight_from_a_checkpoint_is_reset_to_it() -> None:
    told = shared.order_to_command(shared.RESET, 0.0, 2_505_000_000)
    assert told == {"kind": "restore", "at": 2.505}
    assert read_command(shared.order_to_command(shared.RESET, 0.0)).arguments["at"] == 0.0
    with pytest.raises(CommandError, match="expected a time >= 0"):
        read_command({"kind": "restore", "at": -1.0})


def test_why_an_order_is_refused_is_told_at_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that cannot be saved: the run begins all the same, without a past."""

    def unsavable(_: object) -> None:
        raise CheckpointError("rig (Free) runs freely and would have gone on meanwhile")

    for place in (
        "rtsim.engine.checkpoint.schedule",
        "rtsim.engine.commands.command_handler",
        "rtsim.runs.simulation",
    ):
        monkeypatch.setattr(f"{place}.check_savable", unsavable)
    seen: list[str] = []
    held: list[RunState] = []

    def ask(cockpit: Cockpit) -> None:
        held.append(RunState(cockpit.shared))
        order(shared.RESET)(cockpit)

    def look(_: Cockpit) -> None:
        seen.extend([held[0].refusal(), held[0].refusal()])

    flown, cockpit = legs(flight([]), tmp_path, {0.1: ask, 0.3: look}, until=0.5)
    assert [leg.reason for leg in flown] == ["end"]
    assert seen == ["rig (Free) runs freely and would have gone on meanwhile", ""]
    assert cockpit.inbox.refused == 1


def test_a_ring_that_was_asked_for_insists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsavable(_: object) -> None:
        raise CheckpointError("no")

    monkeypatch.setattr("rtsim.runs.simulation.check_savable", unsavable)
    wanted = Wanted(None, (), on_command=True, rewind="2", viewed=True)
    with pytest.raises(CheckpointError):
        legs(flight([]), tmp_path, {}, until=0.1, wanted=wanted)


def test_quit_from_the_window_is_known_to_be(tmp_path: Path) -> None:
    flown, cockpit = legs(flight([]), tmp_path, {0.1: order(shared.QUIT)})
    assert flown[-1].reason == "quit"
    assert cockpit.inbox.quit


@pytest.mark.parametrize("text", ["", "short", "ü" * 400, "a" * 512, "tab\there"])
def test_a_reason_is_numbers_and_text_again(text: str) -> None:
    length, words = shared.reason_to_words(text)
    assert len(words) + 3 == len(ANSWER)
    assert all(-(2**63) <= w < 2**63 for w in words)
    told = shared.words_to_reason(length, words)
    assert told.startswith(text.replace("\t", " ")[:200])
    assert told.isprintable()


def test_any_numbers_are_a_text() -> None:
    for length in (-5, 0, 7, 10**9):
        assert shared.words_to_reason(length, [-1] * shared.REASON_WORDS).isprintable()


def test_figures_are_in_the_recording_where_they_are_in_the_summary(tmp_path: Path) -> None:
    def say(cockpit: Cockpit) -> None:
        writer = cockpit.shared.writer("viewer")
        writer.integers[:] = np.arange(writer.integers.size) + 1
        writer.publish()

    flown, cockpit = legs(flight([]), tmp_path, {0.1: say}, until=0.3)
    assert flown[0].path is not None
    footer = Recording.open(flown[0].path).footer
    assert footer is not None
    assert footer["pilot"] == cockpit.latencies()
    parts = footer["pilot"]["interpolation"]
    assert parts == {"count": 5, "median_ns": 9, "p95_ns": 10, "max_ns": 11}
    assert set(footer["pilot"]["input_to_step"]) == set(parts)
    assert MOST_ORDERS == 8


def test_a_run_goes_back_also_after_its_recording_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = FileRecorder.finish

    def fails_first(self: FileRecorder, footer: dict[str, object]) -> None:
        finish(self, footer)
        if self.path.name == "run.mcap":
            raise RecordingError("the disk is full")

    monkeypatch.setattr(FileRecorder, "finish", fails_first)
    flown, _ = legs(flight([]), tmp_path, {0.3: order(shared.RESET)}, until=0.5)
    assert [leg.reason for leg in flown] == ["restored", "end"]
    assert [leg.path and leg.path.name for leg in flown] == ["run.mcap", "run.2.mcap"]
    assert (str(flown[0].lost), flown[1].lost) == ("the disk is full", None)
    summary = RunSummary(RunOptions("f16"), flown[-1])
    assert (summary.status, summary.why) == (2, "the disk is full")

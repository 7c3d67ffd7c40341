"""Requirements that are watched during a run: the same bounds as those of the recording so far."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import random
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from logic_parts import Rows, pieces, random_formula, random_rows
from ramp_parts import S, ramp

import rtsim as rt
from rtsim.cli.main import main
from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Signal, Signals
from rtsim.record.events import RunEnding
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.schema import TrackSpec
from rtsim.record.writer_process import FrameKind, RecordFrame
from rtsim.requirements import Requirement, check
from rtsim.requirements.language import parse
from rtsim.requirements.monitor import Bounds, Monitor
from rtsim.requirements.requirement import required_by
from rtsim.requirements.robustness import Evaluation
from rtsim.requirements.watching import Watcher
from rtsim.runs.request import Connections, Output, RunRequest
from rtsim.runs.simulation import run as perform

NAMES = ("a.x", "b.y")
SPECS = {
    name: TrackSpec(
        name.partition(".")[0], ("step", "side"), Signals(Signal(name.partition(".")[2], ""))
    )
    for name in NAMES
}


def monitor_of(*formulas: str, **header: Any) -> Monitor:
    required = [{"name": f"R{k}", "formula": text} for k, text in enumerate(formulas)]
    return Monitor({"requirements": required, **header}, list(SPECS.values()))


def words_of(rows: Rows) -> np.ndarray[Any, Any]:
    """The rows as a track stores them; order is twice the microstep plus the side."""
    words = np.empty((len(rows), 4), np.int64)
    for k, (ns, order, value) in enumerate(rows):
        words[k, :3] = ns, order // 2, order % 2
        words[k, 3:].view(np.float64)[0] = value
    return words


def check_formula(seed: int) -> None:
    chance = random.Random(seed)
    end = chance.randint(0, 25)
    signals = {name: random_rows(chance, end) for name in NAMES}
    text = random_formula(chance, chance.randint(1, 3), NAMES)
    node, monitor = parse(text), monitor_of(text)

    def offline(until: int, complete: bool) -> list[float]:
        rows = {n: [row for row in some if row[0] <= until] for n, some in signals.items()}
        read = Evaluation(lambda one: pieces(rows[one.name], until), 0, until, complete)
        return [*map(float, read(node)[node].at(0) + 0.0)]

    final = offline(end, True)
    done, now = -1, chance.randint(0, 3)
    while now < end:
        for name, rows in signals.items():
            monitor.track(SPECS[name].name, words_of([r for r in rows if done < r[0] <= now]))
        (found,) = monitor.look(now)
        low, high, sure, possible = offline(now, False)
        assert (found.low, found.high) == (low, high), f"{text}\n{signals}\nat {now}"
        assert low <= final[0]
        assert final[1] <= high
        assert (found.outcome is Outcome.FAILED) == (possible < 0)
        assert found.outcome is not Outcome.PASSED or sure > 0
        done, now = now, now + chance.randint(1, 6)
    for name, rows in signals.items():
        monitor.track(SPECS[name].name, words_of([row for row in rows if row[0] > done]))
    (found,) = monitor.look(end, complete=True)
    assert [found.low, found.high] == final[:2], f"{text}\n{signals}\nuntil {end}"
    assert (found.outcome is Outcome.FAILED) == (final[3] < 0)


def test_bounds_during_a_run_equal_those_of_its_recording() -> None:
    """At each time, they also contain the final robustness."""
    for seed in range(300):
        check_formula(seed)


@pytest.mark.long
def test_bounds_during_10000_runs_equal_those_of_their_recordings() -> None:
    for seed in range(300, 10_300):
        check_formula(seed)


def recorded(scenario: rt.Scenario, **how: Any) -> Recording:
    return rt.simulate(scenario, **how).recording()


def fed(monitor: Monitor, recording: Recording, after: int, until: int) -> None:
    """Add the rows and events after a tag up to another one, as a run sends them."""
    for track in recording.tracks.values():
        sent = track.integer("completed") if "completed" in track.integers else track.ns
        monitor.track(track.name, np.asarray(track.words)[(sent > after) & (sent <= until)])
    for event in recording.events:
        if after < event.tag.ns <= until:
            monitor.event(event)


FORMULAS = (
    "always ramp.x < 0.9 m",
    "always[0, 3] ramp.x < 2 m",
    "eventually ramp.count > 0.5",
    "always (ramp.x > 0.8 m implies eventually[0, 0.6] ramp.x < 0.1 m)",
    "always (ramp.x > 0.8 m implies eventually ramp.x < 0.1 m)",
    "always[1, end] once[0, 0.5] slow.half < 0.4 m",
    "always slow.half < 6 m",
    "always slow.x < 0.9 m",
    "eventually[0, 3.5] drive.slope < 0.3 m/s",
    "always ramp.pair[1] < 2.5 m",
    "ramp.x < 0.1 m until[0, 3] ramp.x > 0.5 m",
    "(always[0, 2] ramp.x < 0.4 m) or not (eventually ramp.x > 0.2 m)",
)


def compare_with_copies(monitor: Monitor, recording: Recording, until_s: float) -> list[Bounds]:
    """Compare the bounds with those of copies of the recording that end at the same times."""
    begin, end = recording.span_ns
    done, found = -1, list[Bounds]()
    for now in range(begin, round(until_s * S) + 1, S // 4):
        fed(monitor, recording, done, now)
        copy = check([Requirement.of_plain(one) for one in recording.header["requirements"]],
                     recording.up_to(now) if now < end else recording)  # fmt: skip
        found = monitor.look(now, complete=now == end)
        for one, whole in zip(found, copy, strict=True):
            assert (one.low, one.high) == (whole.low, whole.high), f"{whole.requirement} at {now}"
            assert (one.outcome is Outcome.FAILED) == (whole.result is Outcome.FAILED)
        done = now
    return found


@pytest.mark.long
def test_bounds_of_a_run_equal_those_of_copies_of_its_recording() -> None:
    """Plants, messages on their way, sampled inputs, sources and arrays; both engines."""
    texts = [f"R{k}: {text}" for k, text in enumerate(FORMULAS)]
    for engine in ("compiled", "interpreted"):
        flown = ramp(4, *texts, transport=0.2)
        recording = recorded(flown, engine=engine, compile=engine == "compiled")
        monitor = Monitor(recording.header, [t.spec for t in recording.tracks.values()])
        found = compare_with_copies(monitor, recording, 4.0)
        assert not monitor.unwatched
        assert [one.name for one in found if one.outcome is Outcome.FAILED] == [
            one.name
            for one in check(list(map(Requirement.of_plain, recording.header["requirements"])),
                             recording)
            if one.result is Outcome.FAILED
        ]  # fmt: skip


def test_a_run_from_a_checkpoint_is_watched_from_the_start_of_the_whole_run() -> None:
    with rt.Simulation(ramp()) as run:
        run.advance(1.0)
        checkpoint = run.save().checkpoint
    texts = [f"R{k}: {text}" for k, text in enumerate(FORMULAS)]
    recording = recorded(ramp(4, *texts), start=checkpoint)
    monitor = Monitor(recording.header, [t.spec for t in recording.tracks.values()])
    found = compare_with_copies(monitor, recording, 4.0)
    assert found[0].low == -math.inf


def test_the_stored_values_do_not_grow_with_the_run() -> None:
    response = "always (a.x > 1 implies eventually[0ns,20ns] once[0ns,9ns] b.y < 1)"
    monitor = monitor_of("always a.x < 5", response)
    for first in range(0, 20_000, 100):
        for name in NAMES:
            rows = [(first + k, 0, float(k % 5)) for k in range(100)]
            monitor.track(SPECS[name].name, words_of(rows))
        monitor.look(first + 99)
        kept = [len(history) for history in monitor._histories.values()]
        assert max(kept) <= 140, "20 ns, 9 ns and the rows of one evaluation"


def test_a_formula_that_needs_the_whole_run_is_given_up_if_the_run_is_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rtsim.requirements.monitor.MOST_CHANGES", 150)
    monitor = monitor_of("always a.x < 5", "always eventually a.x < 5")
    for first in range(0, 400, 100):
        monitor.track("a", words_of([(first + k, 0, 1.0 + k) for k in range(100)]))
        monitor.look(first + 99)
    assert monitor.unwatched == {"R1": "it needs the whole run, which is too long"}
    (left,) = monitor.look(399)
    assert (left.name, left.outcome, left.high, left.at_ns) == ("R0", Outcome.FAILED, -95.0, 4)


def test_a_condition_that_may_never_be_true_is_not_a_pass() -> None:
    """The check after the run finds that this requirement is not exercised."""
    monitor = monitor_of("always[0ns,5ns] (a.x > 3 implies b.y < 1)", "always[0ns,5ns] a.x < 3")
    for name in NAMES:
        monitor.track(SPECS[name].name, words_of([(0, 0, 0.0), (9, 0, 0.0)]))
    conditional, plain = monitor.look(9)
    assert (conditional.low, conditional.outcome) == (3.0, Outcome.UNDECIDED)
    assert (plain.low, plain.outcome) == (3.0, Outcome.PASSED)
    assert plain.to_plain() == {
        "name": "R1", "robustness": [3.0, 3.0], "outcome": "passed", "at_ns": None,
    }  # fmt: skip


def test_a_formula_without_a_compared_value_is_not_a_pass() -> None:
    """Before the start of the run is no value, so that the formula is true without a comparison."""
    monitor = monitor_of("historically[5ns,9ns] a.x < 3", "historically[0ns,9ns] a.x < 3")
    monitor.track("a", words_of([(0, 0, 0.0), (9, 0, 0.0)]))
    empty, compared = monitor.look(9)
    assert (empty.low, empty.outcome) == (np.inf, Outcome.UNDECIDED)
    assert (compared.low, compared.outcome) == (3.0, Outcome.PASSED)


def test_a_violation_has_the_first_time_at_which_the_condition_is_false() -> None:
    monitor = monitor_of("always a.x < 3 and always a.x < 9", "eventually[0ns,5ns] a.x > 9")
    monitor.track("a", words_of([(0, 0, 0.0), (2, 0, 4.0), (4, 0, 0.0), (7, 0, 8.0)]))
    both, never = monitor.look(9)
    assert (both.outcome, both.at_ns, both.high) == (Outcome.FAILED, 2, -5.0)
    assert (never.outcome, never.at_ns) == (Outcome.FAILED, 9), "the time of the evaluation"


def test_what_cannot_be_watched_is_named_and_the_rest_is_watched() -> None:
    monitor = monitor_of("always a.z < 3", "always a.x < 3")
    assert "unknown signal 'a.z'" in monitor.unwatched["R0"]
    monitor.track("a", words_of([(0, 0, 0.0)]))
    assert [one.name for one in monitor.look(1)] == ["R1"]


def test_rows_of_other_tracks_are_not_stored() -> None:
    monitor = monitor_of("always a.x < 3")
    assert monitor.tracks == {"a"}
    monitor.track("b", words_of([(0, 0, 0.0)]))
    assert not monitor._rows


# The process that writes the recording


def started(*formulas: str) -> RecordFrame:
    required = [{"name": f"R{k}", "formula": text} for k, text in enumerate(formulas)]
    start = {"header": {"requirements": required}, "tracks": [s.to_json() for s in SPECS.values()]}
    return RecordFrame(FrameKind.START, 0, json.dumps(start).encode())


def rows_of(number: int, *rows: tuple[int, int, float]) -> RecordFrame:
    return RecordFrame(FrameKind.ROWS, number, words_of(rows).tobytes())


MARK = RecordFrame(FrameKind.MARK, 0, b"")
FINISH = RecordFrame(FrameKind.FINISH, 0, b"{}")


def watched(*given: RecordFrame) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    seconds = itertools.count(0, S)
    watcher = Watcher(lambda **status: said.append(status), now=lambda: next(seconds))
    for frame in (*given, FINISH):
        watcher(frame)
    watcher.join()
    return said


def test_the_writing_process_reports_bounds_once_all_rows_of_a_tag_have_arrived() -> None:
    said = watched(
        started("always a.x < 3", "always b.y < 3"), rows_of(0, (0, 0, 1.0)),
        rows_of(1, (0, 0, 9.0)), MARK, rows_of(0, (5, 0, 9.0)),
    )  # fmt: skip
    assert said == [
        {
            "watched": [
                {"name": "R0", "robustness": [None, 2.0], "outcome": "undecided", "at_ns": None},
                {"name": "R1", "robustness": [None, -6.0], "outcome": "failed", "at_ns": 0},
            ]
        }
    ]


def test_a_report_without_rows_keeps_the_time_of_the_last_rows() -> None:
    said = watched(started("always a.x < 3"), rows_of(0, (0, 0, 1.0), (5, 0, 9.0)), MARK, MARK)
    (one,) = said[-1]["watched"]
    assert (one["robustness"], one["outcome"], one["at_ns"]) == ([None, -6.0], "failed", 5)


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="other systems have no such thread"
)
def test_the_evaluation_has_the_lowest_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    monkeypatch.setattr(
        Watcher, "_watch",
        lambda _: found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id())),
    )  # fmt: skip
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    watched(started("always a.x < 3"))
    assert found == [19]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


def test_a_verdict_is_reported_at_once_and_other_bounds_at_intervals() -> None:
    said: list[dict[str, Any]] = []
    watcher = Watcher(lambda **status: said.append(status), now=lambda: 0)
    watcher._tell_ns = 1
    watcher._tell([Bounds("A", -math.inf, 2.0, Outcome.UNDECIDED)])
    assert not said, "the interval has not passed"
    failed = Bounds("A", -math.inf, -1.0, Outcome.FAILED, 5)
    watcher._tell([failed])
    watcher._tell([failed])
    watcher._tell([dataclasses.replace(failed, high=-2.0)])
    assert said == [{"watched": [failed.to_plain()]}]


def test_a_monitor_that_fails_does_not_disturb_the_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(Monitor, "look", broken)
    why = "ValueError: broken"
    two = started("always a.x < 3", "always b.y < 3")
    assert watched(two, MARK) == [{"unwatched": {"R0": why, "R1": why}}]
    malformed = {"header": {"requirements": [{}]}, "tracks": []}
    start = RecordFrame(FrameKind.START, 0, json.dumps(malformed).encode())
    said: list[dict[str, Any]] = []
    watcher = Watcher(lambda **status: said.append(status))
    for frame in (start, MARK, FINISH):
        watcher(frame)
    assert not watcher._thread.is_alive()
    (one,) = said
    assert list(one["unwatched"]) == [""]
    assert one["unwatched"][""]


def test_a_requirement_that_is_not_evaluated_is_reported_once() -> None:
    said = watched(started("overshoot(a.x, 1) < 3 %", "always a.x < 3"), MARK, MARK)
    assert [one for one in said if "unwatched" in one] == [
        {"unwatched": {"R0": "a step measure, such as rise_time, needs the whole run"}}
    ]
    assert [one["name"] for one in said[-1]["watched"]] == ["R1"]


# The loop


class Reporting(MemoryRecorder):
    """Reports the same bounds after each tag."""

    on_watched: Any = None

    def pump(self, wait: bool = False) -> None:
        super().pump(wait)
        failed = Bounds("LOW", -math.inf, -1.0, Outcome.FAILED, 5).to_plain()
        self.on_watched([failed, {**failed, "name": "OPEN", "outcome": "undecided"}])


@pytest.mark.parametrize("stop", [False, True])
def test_the_loop_announces_and_records_a_violation_once(stop: bool) -> None:
    said: list[str] = []
    recorder = Reporting()
    output = Output(recorder, stop_on_violation=stop)
    result = perform(
        RunRequest(ramp(1), output=output, live=Connections(tell=said.append), compile=False)
    )
    assert said == ["requirement LOW is violated at 5e-09 s, robustness -1 so far"]
    (event,) = [one for one in recorder.recording().events if one.kind == "Violated"]
    assert event.source == "LOW"
    assert event.values == {"robustness": -1.0, "at": 5e-9}
    assert result.reason == ("requirement violated" if stop else "end")
    assert (result.ended.ns < S) == stop
    assert result.ending.stopped == stop


# The command line

STOPPED = "was ended by the option --stop-on-violation at"


def scenario_file(folder: Path) -> str:
    (folder / "rising.py").write_text(RISING)
    return f"{folder / 'rising.py'}:rising"


RISING = """
import rtsim as rt


class Rising(rt.Plant):
    x = rt.state("m")

    def derivative(self, d):
        d.x = 1.0


def rising():
    loop = rt.Scenario("rising", until=600)
    loop.plant(Rising(), step=0.01)
    loop.require("LOW", "always rising.x < 0.045 m")
    return loop
"""


def executed(*words: str) -> Result:
    return CliRunner().invoke(main, ["run", *words, "--plain", "--seed", "0"])


@pytest.mark.live
@pytest.mark.parametrize("as_json", [False, True])
def test_a_violation_is_announced_and_ends_the_run_if_asked(as_json: bool, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    words = [scenario_file(tmp_path), "--pace", "1", "--overrun", "slip:100000", "-o", str(path)]
    words.append("--stop-on-violation")
    done = executed(*words, *(["--json"] if as_json else []))
    assert done.exit_code == 1, done.output
    line = next(one for one in done.stderr.splitlines() if one.startswith("requirement LOW"))
    assert line.startswith("requirement LOW is violated at 0.05 s, robustness -")
    assert line.endswith(" so far")
    if as_json:
        assert json.loads(done.stdout)["reason"] == "requirement violated"
    recording = Recording.open(path)
    assert recording.end_ns < 60 * S
    (event,) = [one for one in recording.events if one.kind == "Violated"]
    assert (event.source, event.values["at"]) == ("LOW", 0.05)
    assert float(event.values["robustness"]) < 0.0
    assert STOPPED in str(RunEnding.of(recording))
    (verdict,) = check(required_by(recording.header), recording)
    assert verdict.verdict == "violated"
    again = CliRunner().invoke(main, ["replay", str(path), "--trust"])
    assert again.exit_code == 1
    assert "the replay equals the recording; LOW is violated" in again.output


@pytest.mark.live
@pytest.mark.parametrize("stop", [False, True])
def test_a_requirement_that_is_not_evaluated_is_named_once(stop: bool, tmp_path: Path) -> None:
    words = [scenario_file(tmp_path), "--until", "0.03", "-o", str(tmp_path / "run.mcap")]
    words += ["--require", "PEAK: max_error(rising.x, 0 m) < 1 m"]
    done = executed(*words, *(["--stop-on-violation"] if stop else ["--pace", "1"]))
    said = (
        "requirement PEAK is not evaluated during the run, but at its end: a step measure, such as "
        "rise_time, needs the whole run"
    )
    assert done.output.count(said) == 1, done.output
    assert ("; --stop-on-violation does not end the run" in done.output) == stop
    assert "PEAK holds" in " ".join(done.output.split())


@pytest.mark.live
def test_a_watched_run_has_the_trace_of_any_other_run(tmp_path: Path) -> None:
    scenario = scenario_file(tmp_path)
    one, other = tmp_path / "one.mcap", tmp_path / "other.mcap"
    paced = ["--pace", "20", "--overrun", "slip:100000"]
    assert executed(scenario, *paced, "--until", "10", "-o", str(one)).exit_code == 1
    assert executed(scenario, "--until", "10", "-o", str(other)).exit_code == 1
    assert Recording.open(one).digest() == Recording.open(other).digest()


def writer_of(monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    found: list[str] = []

    def start(_path: object, _name: str, _force: bool, writer: str) -> None:
        found.append(writer)
        raise ScenarioError("enough")

    monkeypatch.setattr("rtsim.cli.running.open_recorder", start)
    assert executed(*words).exit_code == 2
    return found[0].rpartition(".")[2]


def test_only_a_paced_run_with_requirements_is_watched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scenario = scenario_file(tmp_path)
    assert writer_of(monkeypatch, scenario) == "writer"
    assert writer_of(monkeypatch, "orbit", "--pace", "1") == "writer"
    assert writer_of(monkeypatch, scenario, "--pace", "1") == "watching"
    assert writer_of(monkeypatch, scenario, "--stop-on-violation") == "watching"
    required = ["--require", "A: always orbit.x < 9 m"]
    assert writer_of(monkeypatch, "orbit", "--pace", "1", *required) == "watching"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["orbit", "--stop-on-violation"], "orbit declares none; add --require 'NAME: FORMULA'"),
        (["orbit", "--stop-on-violation", "--no-record"], "leave out --no-record"),
    ],
)
def test_a_run_that_cannot_stop_on_a_violation_is_refused(words: list[str], says: str) -> None:
    done = executed(*words)
    assert done.exit_code == 2
    assert says in done.output

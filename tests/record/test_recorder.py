"""The process that writes the recording dies: it is told at once, and no such run exits 0.

What discrete-event parts came to, in the report and behind a run.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Generator
from fractions import Fraction
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from rtsim import Model, Scenario, Signals, simulate
from rtsim.cli import main
from rtsim.components.latency import Fixed
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal
from rtsim.core.tag import NS_PER_S
from rtsim.discrete import Agenda, Processes
from rtsim.gateway.client import connect
from rtsim.gateway.loop import Gateway
from rtsim.record.file import FileRecorder
from rtsim.record.measured import outputs, said
from rtsim.record.reading import Recording
from rtsim.record.reports.run_page import render
from rtsim.runs.result import RecordingLost
from rtsim.runs.simulation import Pace, Progress
from rtsim.testing.determinism import held_average, trace_of
from rtsim.timing.policy import Slip


def falls(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = -1.0


def scenario(until: float = 1.0) -> Scenario:
    out = Scenario("fall", until=until)
    out.plant("box", Model("m", Signals("a"), falls), step=0.1)
    return out


def dies(recorder: FileRecorder) -> None:
    recorder._process.kill()
    recorder._process.wait()


def recording_to(path: Path) -> FileRecorder:
    """By a clock on which each look is due."""
    ticks = count(0, 200_000_000)
    return FileRecorder(path, lambda: next(ticks))


@pytest.mark.parametrize(("how", "ended"), [("continue", 1.0), ("end", 0.5)])
def test_the_loss_is_told_at_once(how: str, ended: float, tmp_path: Path) -> None:
    recorder, told = recording_to(tmp_path / "run.mcap"), list[tuple[int, str]]()
    now = [0]

    def observe(progress: Progress) -> None:
        now[0] = progress.ns
        if progress.ns == 400_000_000:
            dies(recorder)

    with pytest.raises(RecordingLost, match=r"cannot record .*run.mcap.*killed by signal 9") as e:
        simulate(
            scenario(), recorder=recorder, compile=False, observe=observe,
            on_recorder_death=how, tell=lambda text: told.append((now[0], text)),
        )  # fmt: skip
    outcome = e.value.outcome
    since = outcome.certificate.unrecorded
    found = re.match(
        r"(?:after (0\.[0-4]0{8}) s|perhaps from the start on): the writing process ended", since
    )
    assert found is not None
    assert since.endswith(" (killed by signal 9)")
    kept = np.arange(0.0, float(found[1] or -1) + 0.05, 0.1)  # the latest that the writer told
    read = Recording.open(tmp_path / "run.mcap")
    assert set(np.rint(kept * 1e9)) <= set(read.track("box").ns)
    then = "the run continues without it" if how == "continue" else "the run ends"
    assert told == [(400_000_000, f"the recording failed: it is lost {since}; {then}")]
    assert outcome.ended.seconds == ended
    assert outcome.reason == ("end" if how == "continue" else "recording lost")


def test_another_word_is_refused() -> None:
    with pytest.raises(ScenarioError, match="give one of continue, end"):
        simulate(scenario(), compile=False, on_recorder_death="stop")


def test_a_run_that_keeps_its_recording_says_nothing_of_it(tmp_path: Path) -> None:
    outcome = simulate(scenario(), compile=False, recorder=recording_to(tmp_path / "run.mcap"))
    assert outcome.certificate.unrecorded == ""


class Dying(FileRecorder):
    """Loses its writer at the start."""

    def start(self, header: Any) -> None:
        super().start(header)
        dies(self)
        ticks = count(stopwatch(), 200_000_000)
        self._now = lambda: next(ticks)


@pytest.mark.parametrize(("how", "ended"), [("continue", 10.0), ("end", 0.01)])
def test_the_command_tells_and_exits_2(
    how: str, ended: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtsim.cli.running.FileRecorder", Dying)
    monkeypatch.chdir(tmp_path)
    run = ["run", "unstable", "--plain", "-o", "a.mcap", "--force", "--on-recorder-death", how]
    done = CliRunner().invoke(main, run)
    assert done.exit_code == 2
    lines = done.stderr.splitlines()
    lost = r"the recording failed: it is lost (after 0\.|perhaps from the start on: )"
    assert re.match(lost, lines[0])
    assert lines[1].startswith("Error: cannot record to a.mcap: the writing process ended")
    assert f"unstable: {ended:g} s in" in done.stdout
    told = CliRunner().invoke(main, [*run, "--json", "--strict"])
    summary = json.loads(told.stdout)
    assert told.exit_code == 2
    assert summary["error"]["type"] == "RecordingLost"
    assert summary["simulated_s"] == ended
    assert re.match(r"after 0\.|perhaps from the start on: ", summary["certificate"]["unrecorded"])


def test_rows_of_which_nothing_is_known_are_not_said_to_be_lost(tmp_path: Path) -> None:
    """The writer ended before it told of a row, but it may have written some."""
    with pytest.raises(RecordingLost, match="it is not known whether the file has rows of the run"):
        simulate(scenario(), compile=False, recorder=Dying(tmp_path / "run.mcap"))


def test_who_looks_at_the_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path))
    recorder = FileRecorder(tmp_path / "run.mcap", stopwatch)
    lost: list[RecordingLost] = []
    with Gateway({"scenario": "fall"}) as inbox:

        def fly() -> None:
            try:
                simulate(
                    scenario(1e6), pace=Pace(1.0, Slip(10**6)), inbox=inbox, compile=False,
                    recorder=recorder,
                )  # fmt: skip
            except RecordingLost as error:
                lost.append(error)

        thread = Thread(target=fly)
        thread.start()
        try:
            with connect(os.getpid(), wait=60) as run:
                assert run.unrecorded == ""
                dies(recorder)
                until = stopwatch() + 20 * NS_PER_S
                while not run.unrecorded and stopwatch() < until:
                    pass  # each question waits for a look at the run
                assert run.unrecorded.endswith("(killed by signal 9)")
                shown = CliRunner().invoke(main, ["ctl", "status"])
                assert f"NOT RECORDED {run.unrecorded}" in shown.stdout
                run.quit()
        finally:
            thread.join(60)
    assert [error.outcome.reason for error in lost] == ["quit"]
    assert re.match(r"after \d|perhaps from the start on: ", inbox.unrecorded)


def calling(calls: int = 4) -> Scenario:
    """y is 6 at the start, 1 from 1 s on, 3 from 2 s to the end at 4 s; calls at 1 s and 2 s."""

    def setup(agenda: Agenda) -> None:
        def body() -> Generator[Any, Any, None]:
            for value in (1.0, 3.0):
                yield agenda.timeout(0.75)
                agenda.write(y=value)
                yield agenda.timeout(0.25)
            for k in range(calls):
                agenda.send("calls", length=k)

        agenda.process(body())

    out = Scenario("s", until=4, assumptions=("one", "one"))
    processes = Processes(
        setup, outputs=Signals(Signal("y", "m", initial=6.0)),
        messages={"calls": Signals("length [s]")}, assumptions=("one", "two"),
    )  # fmt: skip
    out.processes("p", processes, transport=Fixed(0.25))
    return out


def test_outputs_are_averaged_over_the_time_that_they_held() -> None:
    (found,) = outputs(trace_of(calling()))
    assert (found.name, found.unit) == ("p.y", "m")
    assert found.average == pytest.approx((6 * 1 + 1 * 1 + 3 * 2) / 4)
    assert (found.least, found.greatest, found.last) == (1.0, 6.0, 3.0)


def test_an_output_without_a_message_keeps_its_declared_value_in_the_report() -> None:
    out = Scenario("s", until=4)
    out.processes("p", Processes(lambda _: None, outputs=Signals("y = 6")))
    (found,) = outputs(trace_of(out))
    assert found[:1] + found[2:] == ("p.y", 6.0, 6.0, 6.0, 6.0)


def test_a_message_that_is_under_way_at_the_end_counts_for_no_extreme() -> None:
    made = calling()
    made.until_ns = int(1.8e9)  # the value 3 is sent at 1.75 s, and would arrive at 2 s
    (found,) = outputs(trace_of(made))
    assert (found.least, found.greatest, found.last) == (1.0, 6.0, 1.0)


def test_messages_have_an_interval_where_there_are_many() -> None:
    (few,) = said(trace_of(calling()))
    assert (few.name, few.messages, few.mean, few.least, few.greatest) == (
        "calls.length", 4, 1.5, 0.0, 3.0,
    )  # fmt: skip
    assert few.estimate is None
    (many,) = said(trace_of(calling(400)))
    assert many.estimate is not None
    assert many.mean == pytest.approx(many.estimate.mean) == 199.5


def test_the_report_has_both_tables_and_each_assumption_once() -> None:
    recording = trace_of(calling())
    page = render(recording)
    assert "Discrete events" in page
    assert "<td>p.y</td>" in page
    assert "<td>calls.length</td>" in page
    assert recording.header["scenario"]["assumptions"] == ["one", "two"]


def test_the_warm_up_is_left_out_of_averages_and_of_messages() -> None:
    """From 1.5 s on: y is 1 for 0.5 s and 3 for 2 s; the last two of four calls are later."""
    recording = trace_of(calling(calls=2))
    (held,), (told,) = outputs(recording, 1_500_000_000), said(recording, 1_500_000_000)
    assert held.average == pytest.approx((1 * 0.5 + 3 * 2) / 2.5)
    assert (held.least, held.greatest, held.last) == (1.0, 3.0, 3.0)
    assert (told.messages, told.least, told.greatest, told.mean) == (2, 0.0, 1.0, 0.5)
    (at_a_message,) = outputs(recording, 2_000_000_000)
    assert (at_a_message.least, at_a_message.average) == (3.0, 3.0)
    assert said(recording, 2_000_000_001) == []
    page = render(recording, after="3/2")
    assert "The averages begin at 1.5 s" in page
    assert re.search(r"<td>p\.y</td><td[^>]*>2\.6<", page)
    assert "The averages include the warm-up" in render(recording)


def test_an_interval_is_of_the_messages_that_are_left() -> None:
    """Of 400 calls at 1 s and at 2 s each, 400 are left: 20 batches of 20."""
    (many,) = said(trace_of(calling(400)), 1_500_000_000)
    assert many.messages == 400
    assert many.estimate is not None
    assert many.estimate.count == 20


def test_the_report_leaves_out_what_it_is_told_to(tmp_path: Path) -> None:
    flown = str(tmp_path / "q.mcap")
    run = CliRunner().invoke(main, ["run", "queue", "--set", "until=50", "-o", flown])
    assert run.exit_code == 0, run.output

    def told(*more: str) -> dict[str, Any]:
        answer = CliRunner().invoke(main, ["report", flown, "--json", *more])
        found: dict[str, Any] = json.loads(answer.stdout)
        return found

    recording = Recording.open(flown)
    for after in (0, 20):
        found = told("--after", str(after))
        assert found["after_s"] == after
        served = found["outputs"]["queue.served"]
        assert served["average"] == held_average(recording, "messages/queue.served", after)
        waits = recording.messages["customers"]["wait"][
            recording.track("messages/customers").ns >= after * 1e9
        ]
        wait = found["messages"]["customers.wait"]
        assert (wait["messages"], wait["mean"]) == (len(waits), float(waits.mean()))
    assert "The averages begin at 20 s" in (tmp_path / "q.html").read_text(encoding="utf-8")
    assert told() == told("--after", "0")
    for wrong, why in (("50", "ends at 50 s"), ("-1", "an earlier time"), ("x", "not a number")):
        assert why in told("--after", wrong)["error"]["message"]


def test_there_is_no_warm_up_where_nothing_is_averaged(tmp_path: Path) -> None:
    flown = str(tmp_path / "ball.mcap")
    CliRunner().invoke(main, ["run", "ball", "--until", "0.1", "-o", flown])
    answer = CliRunner().invoke(main, ["report", flown, "--after", "0.05"])
    assert answer.exit_code == 2
    assert "no discrete-event component" in answer.output


def test_what_a_checkpoint_went_on_with_is_not_taken_for_the_start(tmp_path: Path) -> None:
    """Nobody recorded what held at the checkpoint: the average begins with the first message."""
    flown, rest = (str(tmp_path / name) for name in ("whole.mcap", "rest.mcap"))
    run = ["run", "queue", "--set", "until=50", "--checkpoint-at", "30", "-o", flown]
    assert CliRunner().invoke(main, run).exit_code == 0
    (checkpoint,) = tmp_path.glob("*.checkpoint")
    went_on = CliRunner().invoke(main, ["run", "--from", str(checkpoint), "-o", rest])
    assert went_on.exit_code == 0, went_on.output
    recording = Recording.open(rest)
    first = int(recording.track("messages/queue").integer("arrival")[0])
    assert first > 30_000_000_000
    whole = held_average(
        Recording.open(flown), "messages/queue.served", after=Fraction(first, 10**9)
    )
    assert held_average(recording, "messages/queue.served") == whole
    served = {o.name: o.average for o in outputs(recording)}["queue.served"]
    assert served == whole


def test_a_report_of_a_run_without_any_has_no_such_section() -> None:
    assert "Discrete events" not in render(trace_of(Scenario("none", until=1)))


def test_a_run_ends_with_its_outputs(tmp_path: Path) -> None:
    arguments = ["run", "queue", "--set", "until=50", "-o", str(tmp_path / "q.mcap")]
    printed = CliRunner().invoke(main, arguments)
    assert printed.exit_code == 0, printed.output
    assert "Discrete events" in printed.output
    assert "served" in printed.output
    again = CliRunner().invoke(main, [*arguments, "--force", "--json"])
    shown = json.loads(again.stdout)["processes"]["queue"]
    assert set(shown) == {"waiting", "served"}
    assert shown["served"] in (0.0, 1.0)

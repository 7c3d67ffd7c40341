"""Held, slowed down and hurried on the wall: its time adds up, no frame is early, none an overrun.

What is asserted by default holds on a machine that is busy too: when each frame was due is a
matter of integers, whatever it came to.  Ten seconds and a millisecond want a quiet machine:
``pytest -m full tests/realtime/test_control_realtime.py``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtsim.core.clock import Wake, WallClock, stopwatch
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.commands import Inbox, from_json, read_command
from rtsim.gateway.client import Run, connect
from rtsim.models import unstable
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import Pace, Progress, simulate
from rtsim.timing.certificate import Certificate
from rtsim.timing.frames import NO_SAMPLE
from rtsim.timing.policy import CatchUp

pytestmark = pytest.mark.realtime
MS = 1_000_000
Told = Mapping[str, Any]


class Watched(WallClock):
    """Keeps when each frame was due, and when its wait was over."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.waits: list[tuple[int, int, int]] = []
        self.began: int | None = None

    def anchor(self, ns: int, own: int | None = None) -> None:
        super().anchor(ns, own)
        self.began = self.wall(0) if self.began is None else self.began

    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:
        due = self.wall(ns)
        reached = super().wait_until(ns, wake)
        self.waits.append((ns, due, self.now()))
        return reached


class Standing(Wake):
    """While simulated time stands: after so many real seconds each, the commands one by one."""

    def __init__(self, seconds: float, told: Sequence[Told], inbox: Inbox) -> None:
        super().__init__()
        self._seconds, self._told, self._inbox = seconds, list(told), inbox

    def wait(self, seconds: float) -> bool:  # noqa: ARG002
        super().wait(self._seconds)
        self._inbox.give(read_command(self._told.pop(0)))
        return True


def ideal(recording: Recording, ns: int) -> Fraction:
    """Wall ns from the start to ``ns``: at the rates and with the pause that were recorded."""
    wall, rate, at = Fraction(0), Fraction(1), 0
    for event in recording.events:
        if event.kind != "Command" or event.tag.ns >= ns:
            continue
        wall += (event.tag.ns - at) / rate
        at = event.tag.ns
        if event.source == "rate":
            rate = Fraction(repr(from_json(event.text).arguments["rate"]))
        elif event.source == "resume":
            wall += _certificate(recording).held_ns
    return wall + (ns - at) / rate


def _certificate(recording: Recording) -> Certificate:
    assert recording.footer is not None
    return Certificate.from_json(recording.footer["certificate"])


def test_wall_and_simulated_time_add_up_to_the_ns_and_nothing_is_early() -> None:
    told: dict[int, Iterable[Told]] = {
        100 * MS: [{"kind": "rate", "rate": 0.1}], 140 * MS: [{"kind": "pause"}],
        3000 * MS: [{"kind": "rate", "rate": 1.0}],
    }  # fmt: skip
    inbox = Inbox()
    inbox.wake = Standing(0.2, [{"kind": "rate", "rate": 10.0}, {"kind": "resume"}], inbox)
    clock, began = Watched(), {0: 0}

    def observe(progress: Progress) -> None:
        began[progress.ns] = clock.now()
        for ns in [n for n in told if n <= progress.ns]:
            for data in told.pop(ns):
                inbox.give(read_command(data))

    recorder = MemoryRecorder()
    simulate(
        unstable.scenario(latency=0.03, until=3.2), pace=Pace(1.0, CatchUp(10**6)), clock=clock,
        inbox=inbox, observe=observe, recorder=recorder,
    )  # fmt: skip
    recording = recorder.recording()
    certificate = _certificate(recording)
    kinds = [e.source for e in recording.events if e.kind == "Command"]
    assert kinds == ["rate", "pause", "rate", "resume", "rate"]
    assert certificate.holds == 1
    assert certificate.held_ns >= 0.4 * NS_PER_S
    start, rounding, slipped = clock.began or 0, len(kinds), certificate.slipped_ns
    for ns, due, ended in clock.waits:
        assert 0 <= due - start - ideal(recording, ns) <= slipped + rounding
        assert ended >= due, "no frame is early"
    end = 3200 * MS
    assert 0 <= clock.wall(end) - start - ideal(recording, end) - slipped <= rounding
    for event in recording.events:
        # The machine's own: that late, with every pause and rate.  A run that is behind shows its
        # progress only after several frames.
        if event.kind == "Overrun" and event.tag.ns in began:
            assert began[event.tag.ns] - start - ideal(recording, event.tag.ns) >= float(
                event.values["amount"]
            )


@pytest.mark.full
def test_ten_seconds_of_pause_and_rates_to_a_millisecond(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The F-16 told by a client; for a quiet machine."""
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path))
    path = tmp_path / "flight.mcap"
    command = [
        sys.executable, "-m", "rtsim", "run", "f16", "--plain", "--control", "--pace", "1.0",
        "--until", "1000", "--overrun", "slip:1000000", "-o", str(path),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        with connect(process.pid, wait=60) as run:
            paused = _told(run)
        assert process.wait(60) == 130, "it was to fly on"
    finally:
        process.kill()
        process.wait()
    recording = Recording.open(path)
    assert recording.footer is not None
    certificate = _certificate(recording)
    took = recording.footer["wall_ns"] - ideal(recording, recording.footer["ended"])
    print(
        f"{float(took) / 1e3:.1f} us more than it should take, {certificate.slipped_ns / 1e3:.1f} "
        f"us of it slipped; overruns {certificate.overruns}"
    )
    assert 0 <= took - certificate.slipped_ns < MS
    assert certificate.overruns == {"compute": 0, "wake": 0}, "is this machine quiet?"
    assert certificate.slipped_ns == 0
    assert 10 * NS_PER_S <= certificate.held_ns <= paused
    woken = recording.track("timing").integer("wake_lateness")
    assert np.all(woken[woken != NO_SAMPLE] >= 0), "no frame is early"


def _told(run: Run) -> int:
    """Slow, paused, fast and back; the ns that the pause took at most."""
    run.rate(0.1)
    _pass(run, 0.3)
    before = stopwatch()
    run.pause()
    Wake().wait(10.0)
    run.resume()
    paused = stopwatch() - before
    _pass(run, 0.2)
    run.rate(2)  # frames of 2.5 ms: a plain F-16 takes a fifth of one
    _pass(run, 4)
    run.rate(1)
    _pass(run, 1)
    run.quit()
    return paused


def _pass(run: Run, seconds: float) -> None:
    """Until so much simulated time is over."""
    until = run.status.seconds + seconds
    while run.status.seconds < until:
        Wake().wait(0.02)

"""What a timing certificate says: where it was, how it was paced, what was best and worst."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from rtsim.core.clock import VirtualClock
from rtsim.testing import FakeClock
from rtsim.timing.certificate import Certificate, certify, show_ns
from rtsim.timing.frames import WorstFrame
from rtsim.timing.pacing import Pacer
from rtsim.timing.scheduling import Item, Machine, examine_machine
from rtsim.timing.statistics import Spread, Summary

MACHINE = replace(examine_machine(), cpus=3, virtual=False)


def spread(*samples: int) -> Summary:
    out = Spread()
    out.add(np.array(samples, np.int64))
    return out.summary()


def certificate(**given: Any) -> Certificate:
    about: dict[str, Any] = {
        "machine": MACHINE, "scheduling": (), "rate": "1", "policy": "slip:5", "spin_ns": None,
        "tolerance_ns": 2000, "frames": 4, "not_waited": 1, "lateness": spread(10, 20, 30),
        "compute": spread(100, 200, 300, 400), "margin": spread(5, 6, 7),
        "overruns": {"compute": 0, "wake": 0}, "slipped_ns": 0, "worst": (), **given,
    }  # fmt: skip
    return Certificate(**about)


def shown(**given: Any) -> str:
    out = io.StringIO()
    Console(file=out, width=200).print(certificate(**given).table())
    return out.getvalue()


def test_where_it_was_and_how_it_was_paced() -> None:
    text = shown()
    assert f"{MACHINE.processor}, 3 CPUs; {MACHINE.system}" in text
    assert "3 CPUs, virtual; " in shown(machine=replace(MACHINE, virtual=True))
    assert "scheduling  nothing was requested" in text
    assert "refused" not in text
    assert "rate 1, overruns: slip:5, beyond 2 us\n" in text
    fast = shown(rate="100", period_ns=3 * 10**9, tolerance_ns=3_000_000)
    assert "rate 100, period 3 s, overruns: slip:5, beyond 3 ms\n" in fast
    assert "beyond 2 us, busy-wait up to 50 us\n" in shown(spin_ns=50_000)


def test_what_was_granted_and_what_was_refused() -> None:
    names = {"name": "priority", "asked": "fifo", "granted": "other", "ok": False}
    refused = Item(**{**names, "reason": "no right"})  # type: ignore[arg-type]
    granted = Item(**{**names, "name": "memory", "granted": "locked", "ok": True, "reason": ""})  # type: ignore[arg-type]
    text = shown(scheduling=(refused, granted))
    assert "scheduling  priority: other, memory: locked" in text
    assert "refused     priority fifo (no right)" in text
    assert "memory fifo" not in text


def test_the_distribution_is_from_best_to_worst() -> None:
    lines = [line.split() for line in shown().splitlines()]
    assert ["best", "median", "p99", "p99.9", "worst", "frames"] in lines
    rows = {line[0]: line[1:] for line in lines if line and line[0] in ("lateness", "compute")}
    assert rows["lateness"][:2] == ["10", "ns"]
    assert rows["lateness"][-3:] == ["30", "ns", "3"]
    assert rows["compute"][:2] == ["100", "ns"]
    assert rows["compute"][-3:] == ["400", "ns", "4"]
    (margin,) = (line for line in lines if line and line[0] == "margin")
    assert margin[1:3] == ["7", "ns"], "of a margin the largest is best"
    assert margin[-3:] == ["5", "ns", "3"]


@pytest.mark.parametrize(("frames", "few"), [(0, False), (1, True), (999, True), (1000, False)])
def test_too_few_frames_are_told(frames: int, few: bool) -> None:
    said = "too few frames (p99 needs 100, p99.9 needs 1000)"
    assert (said in " ".join(shown(frames=frames).split())) is few


def test_the_verdict() -> None:
    assert "4 frames, 0 overruns (0 by compute, 0 by wake); 1 began without waiting\n" in shown()
    text = shown(
        overruns={"compute": 7, "wake": 2}, blamed={"a": 1, "b": 4, "c": 2, "d": 3}, in_line=1,
        slipped_ns=3_000_000, holds=2, held_ns=5_000, injected={"stall": 1_000, "load": 10},
    )  # fmt: skip
    assert (
        "4 frames, 9 overruns (7 by compute: b 4, d 3, c 2, 2 by wake: 1 while others used "
        "the CPU); 3 ms slipped; 1 began without waiting; paused 2 times, 5 us; "
        "time of faults: stall 1 us, load 10 ns"
    ) in " ".join(text.split())


def test_whether_it_kept_time_and_whether_it_was_paced() -> None:
    assert certificate().kept_time
    for cause in ("compute", "wake"):
        assert not certificate(overruns={"compute": 0, "wake": 0, cause: 1}).kept_time
    assert certificate().paced
    assert certificate(rate="max").paced, "for as long as it waited"
    assert not certificate(rate="max", lateness=spread()).paced
    assert certificate(rate="1", lateness=spread()).paced


def test_the_worst_frames_are_told_with_what_took_their_time() -> None:
    assert "Worst frames" not in shown()
    frame = WorstFrame(1_500_000_000, 20, 3_000, {"law": 2_000, "plant": 900})
    text = shown(worst=(frame,))
    assert "Worst frames" in text
    assert [cell.strip() for cell in text.splitlines()[-2].strip("│┃|").split("│")] == [
        "1.500000 s", "20 ns", "3 us", "law 2 us, plant 900 ns, unaccounted 100 ns",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "n/a"), (0, "0 ns"), (999, "999 ns"), (1000, "1 us"), (-1000, "-1 us"),
        (12_345, "12.3 us"), (999_999, "1e+03 us"), (10**6, "1 ms"), (10**9, "1 s"),
        (-2_500_000_000, "-2.5 s"),
    ],
)  # fmt: skip
def test_durations(ns: int | None, text: str) -> None:
    assert show_ns(ns) == text


def test_one_of_a_run_that_never_waited_and_of_one_that_did() -> None:
    idle = certify(Pacer(VirtualClock(), frame_ns=1000))
    assert (idle.rate, idle.not_waited, idle.frames, idle.scheduling) == ("max", 0, 0, ())
    assert isinstance(idle.machine, Machine)
    paced = certify(Pacer(FakeClock(2.0), frame_ns=1000))
    assert (paced.rate, paced.not_waited) == ("2", 0)
    assert paced.overruns == {"compute": 0, "wake": 0}


def test_a_run_that_was_never_paused_was_held_for_no_time() -> None:
    assert certificate().held_ns == 0

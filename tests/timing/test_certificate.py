"""Statistics in fixed memory, and the certificate made of them."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from rich.console import Console

from rtsim.core.clock import VirtualClock
from rtsim.core.errors import OverrunError, RecordingError
from rtsim.testing import FakeClock
from rtsim.timing.certificate import Certificate, certify, show_ns
from rtsim.timing.frames import BLOCK, NO_SAMPLE, FrameLog, WorstFrame
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import Abort
from rtsim.timing.scheduling import Granted, Item, Machine, examine_machine
from rtsim.timing.statistics import Spread, Summary

MS = 1_000_000
SAMPLES = arrays(np.int64, st.integers(1, 300), elements=st.integers(-(10**15), 10**15))


def spread_of(*samples: int) -> Spread:
    spread = Spread()
    spread.add(np.array(samples, dtype=np.int64))
    return spread


@given(SAMPLES, st.integers(0, 300))
def test_quantiles_are_within_one_percent_and_extremes_exact(
    samples: np.ndarray[Any, np.dtype[np.int64]], cut: int
) -> None:
    spread = Spread()
    spread.add(samples[:cut])  # in whatever blocks they come
    spread.add(samples[cut:])
    ordered = np.sort(samples)
    assert (spread.count, spread.min, spread.max) == (len(samples), ordered[0], ordered[-1])
    for p in (0.01, 0.5, 0.99):
        exact = int(ordered[max(1, int(np.ceil(round(p * len(samples), 6)))) - 1])
        got = spread.quantile(p)
        if got is not None:
            assert abs(got - exact) <= 0.01 * abs(exact) + 0.5


@given(SAMPLES)
def test_the_histogram_holds_every_sample_once(
    samples: np.ndarray[Any, np.dtype[np.int64]],
) -> None:
    spread = Spread()
    spread.add(samples)
    bins = spread.summary().histogram
    assert sum(count for _, _, count in bins) == len(samples)
    for low, high, count in bins:
        assert low <= high
        assert np.count_nonzero((samples >= low) & (samples <= high)) >= count


def test_a_percentile_that_too_few_samples_support_is_not_available() -> None:
    fifty = spread_of(*range(1, 51)).summary()
    assert (fifty.count, fifty.min, fifty.max) == (50, 1, 50)
    assert fifty.median is not None
    assert fifty.p99 is None
    assert fifty.p99_9 is None
    assert spread_of(*range(100)).summary().p99 is not None
    assert spread_of(*range(999)).summary().p99_9 is None
    assert spread_of(*range(1000)).summary().p99_9 is not None
    empty = Spread().summary()
    assert (empty.count, empty.min, empty.median, empty.histogram) == (0, None, None, ())


def test_one_outlier_in_ten_thousand_does_not_move_p99_9() -> None:
    summary = spread_of(*[1000] * 9_999, 5 * MS).summary()
    assert summary.p99_9 == pytest.approx(1000, rel=0.01)
    assert summary.max == 5 * MS


def test_extremes_of_64_bits_are_counted() -> None:
    spread = spread_of(2**63 - 1, -(2**62), 0)
    assert spread.count == 3
    assert sum(n for _, _, n in spread.summary().histogram) == 3


def test_the_frame_log_counts_by_itself_when_its_buffer_is_full() -> None:
    log = FrameLog(keep_worst=0)
    for _ in range(BLOCK + 1):
        log.add(NO_SAMPLE, 10, 20)
    assert log.buffered == 1
    assert (log.lateness.count, log.compute.count) == (0, BLOCK)
    assert not log.is_among_worst(10**18)


def flown(frames: int, late: int = 2_000) -> Certificate:
    clock = FakeClock(late=[late] * frames)
    pacer = Pacer(clock, frame_ns=MS)
    pacer.start(0)
    for k in range(1, frames):
        clock.advance(300_000)
        pacer.lap("plant")
        pacer.wait(k * MS)
    pacer.stop()
    item = Item("class", "SCHED_FIFO 50", "SCHED_OTHER", ok=False, reason="not permitted")
    return certify(pacer, Granted((item,)))


def printed(certificate: Certificate, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(certificate.table())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_certificate_says_what_was_seen() -> None:
    certificate = flown(2000)
    assert certificate.kept_time
    assert certificate.frames == 2000
    assert certificate.not_waited == 1  # the start
    assert certificate.lateness.count == 1999
    assert certificate.lateness.p99_9 == 2_000
    assert certificate.compute.max == 300_000
    assert certificate.margin.min == MS - 302_000 + 100_000
    assert certificate.rate == "1"
    text = printed(certificate)
    assert "2000 frames, 0 overruns (0 by compute, 0 by wake)" in text
    assert "refused     class SCHED_FIFO 50 (not permitted)" in text
    assert "plant 300 us" in text


def test_a_certificate_of_few_frames_does_not_pretend() -> None:
    text = printed(flown(50))
    assert "n/a" in text
    assert "too few frames" in text


def test_a_certificate_survives_json() -> None:
    certificate = flown(200, late=400_000)
    assert not certificate.kept_time
    text = json.dumps(certificate.to_json(), allow_nan=False)
    assert certificate.to_json() == asdict(certificate)
    assert Certificate.from_json(json.loads(text)) == certificate


@pytest.mark.parametrize("broken", [{}, {"machine": {}}, {"machine": 3}])
def test_what_is_no_certificate_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(RecordingError, match="not a timing certificate"):
        Certificate.from_json(broken)


def test_an_unpaced_run_has_no_lateness() -> None:
    pacer = Pacer(VirtualClock())
    pacer.start(0)
    for k in range(1, 5):
        pacer.wait(k)
    pacer.stop()
    certificate = certify(pacer)
    assert certificate.rate == "max"
    assert certificate.lateness.count == certificate.margin.count == 0
    assert certificate.compute.count == 5
    assert "0 overruns" in printed(certificate)


def test_a_run_that_was_aborted_is_certified_too() -> None:
    clock = FakeClock(late=[3 * MS])
    pacer = Pacer(clock, Abort(), frame_ns=MS)
    pacer.start(0)
    with pytest.raises(OverrunError):
        pacer.wait(MS)
    pacer.stop()
    certificate = certify(pacer)
    assert certificate.overruns == {"compute": 0, "wake": 1}
    assert certificate.lateness.max == 3 * MS
    assert certificate.not_waited == 0


def test_a_machine_that_tells_nothing(tmp_path: Any) -> None:
    machine = examine_machine(tmp_path / "bare")
    assert (machine.governor, machine.clock_source, machine.virtual) == ("unknown", "unknown", None)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("model name : Abacus 3\nflags : fpu hypervisor\n")
    machine = examine_machine(tmp_path)
    assert (machine.processor, machine.virtual) == ("Abacus 3", True)


def test_durations_for_people() -> None:
    assert [show_ns(n) for n in (None, 0, 999, 1_500, -2 * MS, 3 * 10**9)] == [
        "n/a",
        "0 ns",
        "999 ns",
        "1.5 us",
        "-2 ms",
        "3 s",
    ]


def test_time_that_no_job_owns_is_named_in_its_place() -> None:
    frame = WorstFrame(0, 10, 5_000_000, {"law": 300_000, "recording": 400_000})
    assert frame.unaccounted_ns == 4_300_000
    assert frame.shares == [("unaccounted", 4_300_000), ("recording", 400_000), ("law", 300_000)]
    whole = WorstFrame(0, 0, 700, {"law": 700, "idle": 0})
    assert whole.shares == [("law", 700)]
    assert WorstFrame(0, 0, 0, {"law": 7}).unaccounted_ns == 0


def test_labels_stay_whole_in_a_narrow_terminal() -> None:
    text = printed(flown(2000), width=60)
    assert all(label in text for label in ("lateness", "compute ", "margin"))
    assert "…" not in text


# -- what a timing certificate says: where it was, how it was paced, what was best and worst -------


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


def test_the_middle_of_one_sample_is_this_sample() -> None:
    spread = Spread()
    spread.add(np.array([1234]))
    assert spread.quantile(0.5) == 1234
    assert spread.quantile(0.99) is None
    assert Spread().quantile(0.5) is None

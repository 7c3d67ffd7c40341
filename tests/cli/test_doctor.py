"""The doctor on clocks whose lateness is scripted: what it measures and what it claims."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Sequence

import pytest
from click.testing import CliRunner
from rich.console import Console

from rtsim.cli import main
from rtsim.cli.common import _json_text as layout
from rtsim.core.errors import ScenarioError
from rtsim.testing import FakeClock
from rtsim.timing import doctor
from rtsim.timing.doctor import Diagnosis, examine
from rtsim.timing.scheduling import Granted, Item, SchedulingRequest

US = 1_000


@pytest.fixture(autouse=True)
def nothing_is_really_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    item = Item("class", "SCHED_FIFO 50", "SCHED_OTHER", False, "not permitted", "sudo …")
    monkeypatch.setattr(doctor, "probe", lambda: Granted((item,)))


def examined(plain_us: float, spun_us: float | Sequence[float], seconds: float = 8.0) -> Diagnosis:
    """A machine whose sleeps come ``plain_us`` late, and ``spun_us`` with a tail (repeated)."""
    spun = [spun_us] if isinstance(spun_us, int | float) else list(spun_us)

    def make(spin_ns: int) -> FakeClock:
        script = spun if spin_ns else [plain_us]
        late = [round(script[k % len(script)] * US) for k in range(20_000)]
        return FakeClock(late=late)

    return examine(seconds, make_clock=make)


def shown_on_a_terminal(found: Diagnosis) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(found.table())
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_good_machine_holds_the_greatest_rate_that_was_measured_and_no_more() -> None:
    found = examined(60, 0.5)
    assert (found.holds_hz, found.estimate_hz) == (1000, 1000)
    assert found.verdict == (
        "This machine holds 1000 Hz: the latest of 2000 wakes was 500 ns late; 100 us is allowed."
    )
    assert [(m.rate_hz, m.spin_ns, m.lateness.count) for m in found.measurements] == [
        (100, 0, 200),
        (100, 120_000, 200),
        (1000, 0, 2000),
        (1000, 120_000, 2000),
    ]


def test_one_late_wake_in_a_thousand_is_allowed() -> None:
    found = examined(60, [0.5] * 1999 + [900])
    assert found.holds_hz == 1000
    assert found.verdict == (
        "This machine holds 1000 Hz: 999 in 1000 of 2000 wakes were at most 500 ns late; "
        "100 us is allowed (the latest was 900 us late)."
    )
    assert examined(60, [0.5] * 500 + [900]).holds_hz == 100


def test_one_late_wake_in_200_is_allowed_and_reported() -> None:
    found = examined(60, [0.5] * 99 + [4080] + [0.5] * 100)
    at_100 = found.spun[0]
    assert at_100.lateness.p99_9 is None
    assert at_100.judged == ("99 in 100 of 200 wakes", at_100.lateness.p99)
    assert at_100.held
    assert at_100.finding == (
        "99 in 100 of 200 wakes were at most 500 ns late; 1 ms is allowed "
        "(the latest was 4.08 ms late)"
    )
    longer = next(line for line in found.advice if "--seconds" in line)
    assert longer == (
        "200 wakes at 100 Hz in 8 s are too few to show one late wake in 1000: "
        "to judge by 999 wakes in 1000, type rtsim doctor --seconds 40"
    )
    assert not any("--seconds" in line for line in examined(60, 0.5, seconds=40).advice)


def test_three_late_wakes_in_200_are_too_many() -> None:
    at_100 = examined(60, ([0.5] * 60 + [4080]) * 4).spun[0]
    assert not at_100.held
    assert at_100.finding.endswith("ms late; 1 ms is allowed")


def test_under_a_hundred_wakes_the_latest_is_judged() -> None:
    at_100 = examined(60, [0.5] * 20 + [4080] + [0.5] * 100, seconds=2.0).spun[0]
    assert at_100.finding == "the latest of 50 wakes was 4.08 ms late; 1 ms is allowed"
    assert not at_100.held


@pytest.mark.parametrize("late_us", [0.5, 4080])
def test_few_wakes_decide_nothing(late_us: float) -> None:
    found = examined(60, [0.5] * 10 + [late_us] + [0.5] * 100, seconds=0.1)
    assert [m.lateness.count for m in found.spun] == [2, 25]
    assert (found.decided, found.holds_hz) == (False, None)
    assert found.verdict == (
        "It could not be decided which rate this machine holds: 2 wakes at 100 Hz and 25 wakes "
        "at 1000 Hz are too few; at least 100 are needed. Type rtsim doctor --seconds 4 or more."
    )
    assert found.to_json()["decided"] is False
    assert "too few wakes" in shown_on_a_terminal(found)
    assert examined(60, 0.5, seconds=4).holds_hz == 1000


def test_the_faster_rate_is_judged_where_the_slower_has_too_few_wakes() -> None:
    found = examined(60, 400, seconds=1.0)
    assert (found.decided, found.holds_hz) == (True, None)
    assert found.verdict.startswith("This machine does not hold 1000 Hz: the latest of 250 wakes")
    assert examined(60, 0.5, seconds=1.0).holds_hz == 1000


def test_the_command_ends_in_2_where_nothing_was_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds, status in ((0.1, 2), (8.0, 0)):
        found = examined(60, 0.5, seconds=seconds)
        monkeypatch.setattr("rtsim.cli.doctor.examine", lambda *_, found=found, **__: found)
        for options in ((), ("--json",)):
            done = CliRunner().invoke(main, ["doctor", "--seconds", str(seconds), *options])
            assert done.exit_code == status, done.output
        told = json.loads(done.output)
        assert (told["exit_status"], told["why"]) == (status, found.verdict if status else None)


@pytest.mark.parametrize(("load", "told"), [(0.2, False), (3.0, True), (None, False)])
def test_the_load_of_other_programs_is_reported(
    monkeypatch: pytest.MonkeyPatch, load: float | None, told: bool
) -> None:
    def read() -> tuple[float, float, float]:
        if load is None:
            raise OSError
        return load, 0.0, 0.0

    monkeypatch.setattr("os.getloadavg", read, raising=False)
    monkeypatch.setattr("rtsim.timing.scheduling.usable_cpus", lambda: (0, 1))
    found = examined(60, 0.5)
    assert found.load == load
    assert (
        any("load average 3.00 before the measurement, 2 usable" in li for li in found.advice)
        == told
    )
    shown = (
        f"{load:.2f} on 2 usable CPUs"
        if load is not None
        else "load average: unknown on this system"
    )
    assert shown in shown_on_a_terminal(found)


def test_the_verdict_names_the_scheduling_that_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[SchedulingRequest | None] = []

    @contextlib.contextmanager
    def request(wanted: SchedulingRequest | None) -> Iterator[Granted]:
        asked.append(wanted)
        yield Granted((Item("class", f"SCHED_FIFO {wanted.fifo}" if wanted else "no", "x", True),))

    monkeypatch.setattr(doctor, "request", request)
    plain = examine(0.4, make_clock=lambda _: FakeClock())
    assert any("rtsim doctor --realtime" in line for line in plain.advice)
    found = examine(0.4, make_clock=lambda _: FakeClock(), asked=SchedulingRequest(fifo=50))
    assert asked == [None, SchedulingRequest(fifo=50)]
    assert found.verdict.startswith("With --realtime this machine holds")
    assert "Measured with --realtime" in shown_on_a_terminal(found)
    assert not any("rtsim doctor --realtime" in line for line in found.advice)


def test_its_json_has_a_line_for_each_bin() -> None:
    data = examined(60, [0.5, 7.0, 40.0]).to_json()
    text = layout(data)
    assert json.loads(text) == json.loads(json.dumps(data))
    bins = sum(len(m["lateness"]["histogram"]) for m in data["measurements"])
    assert sum(line.strip().startswith("[") and "]" in line for line in text.splitlines()) >= bins
    assert text.count("\n") < bins + 200
    assert layout({"a": {}, "b": [], "c": "é"}) == '{\n  "a": {},\n  "b": [],\n  "c": "\\u00e9"\n}'
    with pytest.raises(ValueError, match="JSON"):
        layout([float("nan")])


def test_a_middling_machine_gets_an_estimate_of_its_rate() -> None:
    found = examined(400, 300)
    assert (found.holds_hz, found.estimate_hz) == (100, 200)
    assert "holds 100 Hz" in found.verdict
    assert "It does not hold 1000 Hz; it might hold about 200 Hz (not measured)." in found.verdict


def test_a_bad_machine_holds_no_rate_and_gets_an_estimate() -> None:
    found = examined(9_000, 5_000)
    assert (found.holds_hz, found.estimate_hz) == (None, 20)
    assert found.verdict.startswith(
        "This machine does not hold 100 Hz: the latest of 200 wakes was 5 ms late; 1 ms is allowed."
    )
    assert "about 20 Hz (not measured)" in found.verdict


def test_the_advice_has_commands_to_type() -> None:
    found = examined(60, 1)
    assert any("not permitted. sudo …" in line for line in found.advice)
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert data["holds_hz"] == 1000
    assert data["measurements"][3]["held"] is True
    text = shown_on_a_terminal(found)
    assert "This machine holds 1000 Hz" in text
    assert "not permitted" in text


def test_progress_rises_from_zero_to_one() -> None:
    seen: list[tuple[float, str]] = []
    examine(4.0, lambda done, what: seen.append((done, what)), make_clock=lambda _: FakeClock())
    shares = [done for done, _ in seen]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert "100 Hz, plain sleep" in {what for _, what in seen}
    assert len({what for _, what in seen}) == 5


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_a_senseless_duration_is_refused(seconds: float) -> None:
    with pytest.raises(ScenarioError, match=r"0\.1 to 3600"):
        examine(seconds)

"""The doctor on clocks whose lateness is scripted: what it measures and what it claims."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

import pytest
from rich.console import Console

from rtsim.errors import ScenarioError
from rtsim.testing import FakeClock
from rtsim.timing import doctor
from rtsim.timing.doctor import Diagnosis, examine
from rtsim.timing.scheduling import Granted, Item

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


def test_a_good_machine_holds_the_greatest_rate_that_was_measured_and_no_more() -> None:
    found = examined(60, 0.5)
    assert (found.holds_hz, found.estimate_hz) == (1000, 1000)
    assert found.verdict == (
        "This machine holds 1000 Hz: 999 wakes in 1000 came within 500 ns of when they were due "
        "(allowed: a tenth of the period, 100 us)."
    )
    assert [(m.rate_hz, m.spin_ns, m.lateness.count) for m in found.measurements] == [
        (100, 0, 200),
        (100, 75_000, 200),
        (1000, 0, 2000),
        (1000, 75_000, 2000),
    ]


def test_rare_late_wakes_up_to_one_in_a_thousand_are_allowed() -> None:
    assert examined(60, [0.5] * 1999 + [900]).holds_hz == 1000
    assert examined(60, [0.5] * 500 + [900]).holds_hz == 100


def test_under_a_thousand_wakes_the_latest_is_judged() -> None:
    found = examined(60, [0.5] * 99 + [1500] + [0.5] * 100)
    at_100 = found.spun[0]
    assert at_100.lateness.p99_9 is None
    assert at_100.judged_ns == 1_500_000
    assert not at_100.held


def test_a_middling_machine_is_told_what_it_might_hold() -> None:
    found = examined(400, 300)
    assert (found.holds_hz, found.estimate_hz) == (100, 200)
    assert "holds 100 Hz" in found.verdict
    assert "1000 Hz it does not hold; about 200 Hz it might (not measured)." in found.verdict


def test_a_bad_machine_is_told_so() -> None:
    found = examined(9_000, 5_000)
    assert (found.holds_hz, found.estimate_hz) == (None, 20)
    assert found.verdict.startswith("This machine does not hold 100 Hz: all 200 wakes came within")
    assert "about 20 Hz (not measured)" in found.verdict


def test_what_to_type_is_part_of_it() -> None:
    found = examined(60, 1)
    assert any("not permitted. sudo …" in line for line in found.advice)
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert data["holds_hz"] == 1000
    assert data["measurements"][3]["held"] is True
    console = Console(file=io.StringIO(), width=100)
    console.print(found.table())
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "This machine holds 1000 Hz" in text
    assert "not permitted" in text


def test_progress_is_told_in_order_and_ends_at_one() -> None:
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

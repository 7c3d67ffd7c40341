"""Whether a loop that came late stood in line for a processor, or was woken late by the machine."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from rtsim.core.clock import WallClock
from rtsim.core.errors import OverrunError
from rtsim.testing.clock import FakeClock
from rtsim.timing import pacing as line_module
from rtsim.timing.certificate import Certificate, certify
from rtsim.timing.pacing import Pacer, RunQueue
from rtsim.timing.policy import Abort

MS = 1_000_000


class Late(FakeClock):
    """Wakes so late each time, and of that the loop stood in line for ``stood``."""

    def __init__(self, *wakes: tuple[int, int]) -> None:
        super().__init__()
        self.in_line = 0
        self._wakes = list(wakes)

    def wait_until(self, ns: int, wake: object = None) -> bool:  # noqa: ARG002
        reached = super().wait_until(ns)
        late, stood = self._wakes.pop(0)
        self.advance(late)
        self.in_line += stood
        return reached


def paced(clock: Late, pacer: Pacer | None = None) -> Pacer:
    """Through all of its wakes, a tag each 10 ms."""
    pacer = pacer or Pacer(clock, frame_ns=10 * MS)
    pacer.line = RunQueue(lambda: clock.in_line)
    pacer.start(0)
    for number in range(1, len(clock._wakes) + 1):
        pacer.wait(number * 10 * MS)
        pacer.ready(number * 10 * MS)
    return pacer


def test_an_overrun_says_how_long_the_loop_stood_in_line() -> None:
    pacer = paced(Late((3 * MS, 2 * MS)))
    overrun = pacer.overrun
    assert overrun is not None
    assert (overrun.cause, overrun.amount_ns, overrun.stood_ns) == ("wake", 3 * MS, 2 * MS)
    assert "the loop woke 3.000 ms late, of which it waited 2.000 ms for a CPU" in str(overrun)


def test_it_may_have_stood_there_before_the_tag_was_due() -> None:
    overrun = paced(Late((3 * MS, 4 * MS))).overrun
    assert overrun is not None
    assert overrun.stood_ns == 4 * MS
    assert "3.000 ms late, of which it waited 3.000 ms" in str(overrun)


def test_those_that_others_made_are_counted() -> None:
    wakes = [(3 * MS, 2 * MS), (3 * MS, MS), (0, 9 * MS), (2 * MS, 0), (2 * MS, 2 * MS)]
    pacer = paced(Late(*wakes))
    assert pacer.overruns == {"compute": 0, "wake": 4}
    assert pacer.ledger.in_line == 2
    certificate = certify(pacer)
    assert "4 overruns (0 by compute, 4 by wake: 2 while others used the CPU)" in (
        certificate._verdict()
    )
    assert Certificate.from_json(certificate.to_json()).in_line == 2


def test_what_was_stood_before_the_wait_is_not_of_it() -> None:
    clock = Late((0, 0), (3 * MS, MS))
    pacer = Pacer(clock, frame_ns=10 * MS)
    pacer.line = RunQueue(lambda: clock.in_line)
    pacer.start(0)
    pacer.wait(10 * MS)
    clock.in_line += 7 * MS  # while it computed
    pacer.wait(20 * MS)
    assert pacer.overrun is not None
    assert pacer.overrun.stood_ns == MS


def test_what_is_handed_on_was_stood_by_the_wake_that_made_it() -> None:
    """35 ms late at 100 Hz: that tag and the two after it, all behind the same others."""
    clock = Late((35 * MS, 34 * MS), (0, 0))
    pacer = Pacer(clock, frame_ns=10 * MS)
    pacer.line = RunQueue(lambda: clock.in_line)
    pacer.start(0)
    for number in range(1, 5):
        pacer.wait(number * 10 * MS)
    assert pacer.overruns == {"compute": 0, "wake": 4}
    assert pacer.ledger.in_line == 4
    pacer.wait(50 * MS)
    assert len(clock.waits) == 2  # on time again
    clock.advance(13 * MS)  # computing
    pacer.wait(60 * MS)
    assert pacer.overrun is not None
    assert (pacer.overrun.cause, pacer.overrun.stood_ns) == ("compute", None)
    assert pacer.ledger.in_line == 4


def test_computing_that_makes_the_rest_of_it_is_not_in_line() -> None:
    clock = Late((3 * MS, 3 * MS))
    pacer = paced(clock)
    clock.advance(20 * MS)
    pacer.wait(20 * MS)
    assert pacer.overrun is not None
    assert (pacer.overrun.cause, pacer.overrun.stood_ns) == ("compute", None)
    assert pacer.ledger.in_line == 1


class InPieces(FakeClock):
    """In line for 2 ms at each piece of a wait; the last ends 3 ms late, in line for 1 ms."""

    in_line = pieces = 0

    def wait_until(self, ns: int, wake: object = None) -> bool:  # noqa: ARG002
        reached = super().wait_until(ns)
        last = ns == 1000 * MS
        self.advance(3 * MS if last else 0)
        self.in_line += MS if last else 2 * MS
        self.pieces += 1
        return reached


def test_of_a_long_wait_only_the_end_counts() -> None:
    clock = InPieces()
    pacer = Pacer(clock, frame_ns=1000 * MS, tolerance_ns=MS)
    pacer.line = RunQueue(lambda: clock.in_line)
    pacer.start(0)
    pacer.wait(1000 * MS, commands=lambda _ns: False)
    assert clock.pieces > 10
    assert pacer.overrun is not None
    assert pacer.overrun.stood_ns == MS


def test_an_overrun_that_ends_the_run_says_it_too() -> None:
    clock = Late((3 * MS, 2 * MS))
    with pytest.raises(OverrunError, match=r"of which it waited 2\.000 ms"):
        paced(clock, Pacer(clock, Abort(), frame_ns=10 * MS))


def test_a_system_that_does_not_say_leaves_it_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for said in (None, "", "12 nothing", "0 0 0\n"):  # the last where nothing is counted
        path = tmp_path / "schedstat"
        path.unlink(missing_ok=True)
        if said is not None:
            path.write_text(said)
        monkeypatch.setattr(line_module, "_FILE", str(path))
        line = RunQueue()
        line.note()
        assert line.stood_ns() is None
        line.close()
    pacer = paced(Late((0, 0)))
    assert pacer.ledger.in_line is None
    assert "0 by wake)" in certify(pacer)._verdict()


def test_a_clock_that_is_not_the_walls_has_no_line() -> None:
    for clock, has in ((FakeClock(), False), (WallClock(), True)):
        pacer = Pacer(clock)
        pacer.start(0)
        assert (pacer.line is not None) is has
        pacer.stop()
        assert pacer.line is None


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says it")
def test_it_is_of_the_thread_that_opened_it() -> None:
    """Also where another asks: that has stood for another time."""
    line = RunQueue()
    first = line._read()
    seen: list[int] = []
    other = threading.Thread(target=lambda: seen.append(line._read()))
    other.start()
    other.join()
    assert first <= seen[0] <= line._read()
    line.note()
    stood = line.stood_ns()
    assert stood is not None
    assert stood >= 0
    line.close()
    line.close()
    line.note()
    assert line.stood_ns() is None

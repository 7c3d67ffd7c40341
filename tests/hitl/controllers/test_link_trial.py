"""The trial of a link against a board whose time are cycles: every figure is known beforehand."""

from __future__ import annotations

import numpy as np
import pytest
from link_parts import BYTE, WORK, LockstepBoard
from protocol_parts import F16, FakeBoard

from hitl.boards.avr import UNO
from hitl.cli.link import about_trial, histogram
from hitl.protocol.framing import encode, encode_message
from hitl.protocol.line import nominal
from hitl.protocol.messages import LAYOUTS, Reset
from hitl.protocol.session import BoardReset, OldFirmware, SilentBoard, WrongController
from hitl.testing.link_trial import LinkTrial, meet, try_link

TRIP_NS = (28 * BYTE + WORK) * 1_000_000_000 // 16_000_000
"""14 bytes each way, and the board's own work."""


def tried(link: LockstepBoard, count: int = 50) -> LinkTrial:
    return try_link(link, meet(link), 500_000, count)


def test_a_good_link() -> None:
    link = LockstepBoard()
    trial = tried(link)
    assert trial.ok
    assert (trial.sent, trial.lost, trial.repeated, trial.garbage) == (50, 0, 0, 0)
    assert trial.board == link.board.who()
    assert trial.wire_ns == 28 * 10 * 2_000
    assert trial.delays_ns.tolist() == [TRIP_NS] * 50


def test_the_clock_of_the_board_is_found_through_a_wrap_of_its_counter() -> None:
    link = LockstepBoard(drift=80e-6, began_us=2**32 - 20_000)
    trial = tried(link, 400)
    clock = trial.clock
    assert clock is not None
    assert abs(clock.drift - 80e-6) <= 3 * clock.drift_sigma < 80e-6
    offset = 1000.0 * (2**32 - 20_000)
    assert abs(clock.offset_ns - offset) < 3 * clock.offset_sigma_ns + clock.asymmetry_ns
    assert clock.asymmetry_ns == TRIP_NS / 2


class Loses(LockstepBoard):
    def spoil(self, k: int, answer: bytes) -> bytes:
        return b"" if k % 10 == 0 else answer


class Repeats(LockstepBoard):
    def spoil(self, k: int, answer: bytes) -> bytes:
        return answer * 2 if k % 10 == 0 else answer


class Damages(LockstepBoard):
    def spoil(self, k: int, answer: bytes) -> bytes:
        return b"\x02" + answer if k % 10 == 0 else answer


class Babbles(LockstepBoard):
    def spoil(self, k: int, answer: bytes) -> bytes:
        return encode(0x77, k, b"whole") + answer if k % 10 == 0 else answer


class Comes(LockstepBoard):
    """Late: behind the patience for it."""

    def send(self, data: bytes) -> None:
        super().send(data)
        if self.answers % 10 == 0 and self.coming:
            cycle, answer = self.coming.pop()
            self.coming.append((cycle + 4_800_000, answer))


@pytest.mark.parametrize(
    ("link", "counts"),
    [
        (Loses(), (5, 0, 0)),
        (Repeats(), (0, 5, 0)),
        (Damages(), (5, 0, 5)),
        (Babbles(), (0, 0, 5)),
        (Comes(), (5, 4, 0)),
    ],
)
def test_what_goes_wrong_is_counted(link: LockstepBoard, counts: tuple[int, int, int]) -> None:
    trial = tried(link)
    assert (trial.lost, trial.repeated, trial.garbage) == counts
    assert not trial.ok
    assert trial.sent == 50 == len(trial.trips) + trial.lost


def test_a_board_that_boots_while_it_is_asked_answers_twice_and_that_is_well() -> None:
    class Boots(LockstepBoard):
        def spoil(self, k: int, answer: bytes) -> bytes:
            return b"\0" + encode_message(Reset(0xB007, 2), 0) + answer if k == 1 else answer

    trial = tried(Boots())
    assert trial.counts.duplicate == 1
    assert trial.repeated == 0
    assert trial.ok


def test_a_board_that_answers_nothing_but_hello() -> None:
    class Mute(LockstepBoard):
        def spoil(self, k: int, answer: bytes) -> bytes:
            return answer if k == 1 else b""

    trial = tried(Mute(), 3)
    assert (trial.lost, trial.clock, trial.trips) == (3, None, ())
    assert len(about_trial(trial, True, UNO)) == 2, "no round trip, no line about one"


def test_who_is_met_is_named_where_it_is_the_wrong_one() -> None:
    meet(LockstepBoard(FakeBoard(F16)), F16)
    meet(LockstepBoard(FakeBoard(F16, schema=7)))
    with pytest.raises(WrongController, match="has other signals"):
        meet(LockstepBoard(FakeBoard(F16, schema=7)), F16)
    with pytest.raises(OldFirmware, match="runs build 00000001"):
        meet(LockstepBoard(FakeBoard(F16)), F16, build=2)

    class Nobody(LockstepBoard):
        def send(self, data: bytes) -> None:
            pass

    with pytest.raises(SilentBoard, match="no board answered within 5 s, no byte arrived"):
        meet(Nobody())


def test_a_reset_in_the_middle_is_told() -> None:
    class Resets(LockstepBoard):
        def spoil(self, k: int, answer: bytes) -> bytes:
            return self.board.reset(0x5EC) if k == 20 else answer

    with pytest.raises(BoardReset, match="boot nonce 000005ec"):
        tried(Resets())


def counted(row: str) -> int:
    """From, to, how many, a bar; or how many beyond."""
    return int(row.split()[-1 if row.startswith("beyond") else 4])


def test_a_histogram_holds_every_value_once() -> None:
    values = np.sort(np.random.default_rng(1).gamma(2.0, 0.2, 1000) + 0.5)
    rows = histogram(values)
    assert sum(map(counted, rows)) == 1000
    assert rows[-1].startswith("beyond")
    assert int(rows[-1].split()[-1]) == 10
    assert max(row.count("#") for row in rows) == 40
    wide = np.sort(np.append(values, np.full(100, 30.0)))
    starts = [float(row.split()[0]) for row in histogram(wide)]
    assert np.allclose(np.diff(np.log(starts)), np.log(60.0) / 10, atol=0.02)
    assert sum(map(counted, histogram(wide))) == 1100
    assert histogram(np.array([2.0, 2.0])) == [f"2.000 to 2.000 ms       2 {'#' * 40}"]


def test_rates_go_by_their_names() -> None:
    names = {117_647.06: 115_200, 500_000.0: 500_000, 58_823.5: 57_600, 31_250.0: 31_250}
    assert {actual: nominal(actual) for actual in names} == names


def test_a_ping_and_its_answer_are_equally_long() -> None:
    assert LAYOUTS[4][1].size == LAYOUTS[132][1].size == 8

"""The fit of a board's clock, on synthetic round trips whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from hitl.protocol.clocks import TICK_NS, WRAP, ClockFit, RoundTrip, fit, unrolled
from rtsim.core.errors import ControllerError

S = 1_000_000_000
WIRE_NS = 870_000  # each way: 10 bytes at 115200


def trips(
    rng: np.random.Generator, *, offset_ns: int, drift_ppm: float, jitter: tuple[float, float],
    count: int = 200, every_ns: int = S // 10, start_ns: int = 0,
) -> list[RoundTrip]:  # fmt: skip
    """``jitter``: mean delay in ns, beside the wire, of the way there and of the way back."""
    made = []
    for k in range(count):
        sent = start_ns + k * every_ns
        there, back = (WIRE_NS + round(rng.exponential(mean)) for mean in jitter)
        board_ns = (sent + there) * (1 + drift_ppm * 1e-6) + offset_ns
        micros = int(board_ns // TICK_NS) * TICK_NS // 1000 % WRAP
        made.append(RoundTrip(sent, sent + there + back, micros))
    return made


def error_ns(fitted: ClockFit, offset_ns: int, drift_ppm: float) -> float:
    at = fitted.reference_ns
    return fitted.board_ns(at) - (at * (1 + drift_ppm * 1e-6) + offset_ns)


@pytest.mark.parametrize("drift_ppm", [0.0, 53.0, -2100.0])
@pytest.mark.parametrize("jitter", [(0.0, 0.0), (2e5, 2e5), (0.0, 5e5), (5e5, 0.0)])
def test_truth_lies_within_the_uncertainty(drift_ppm: float, jitter: tuple[float, float]) -> None:
    """Three sigma in nearly all of 200 draws; a jitter on one way alone biases none beyond it."""
    rng = np.random.default_rng(1)
    outside = 0
    for _ in range(200):
        offset = int(rng.integers(0, 3600 * S))
        fitted = fit(trips(rng, offset_ns=offset, drift_ppm=drift_ppm, jitter=jitter, count=60))
        far = abs(error_ns(fitted, offset, drift_ppm)) > 3 * fitted.offset_sigma_ns
        far |= abs(fitted.drift_ppm - drift_ppm) > 3e6 * fitted.drift_sigma
        outside += far
        assert fitted.asymmetry_ns >= WIRE_NS
    assert outside <= 6


def test_the_uncertainty_says_something() -> None:
    """A minute of pings, with a jitter of 0.2 ms: microseconds, and a part of a ppm."""
    fitted = fit(
        trips(np.random.default_rng(2), offset_ns=S, drift_ppm=20, jitter=(2e5, 2e5), count=600)
    )
    assert fitted.offset_sigma_ns < 10_000
    assert fitted.drift_sigma < 0.3e-6
    assert fitted.trips == 600


def test_more_trips_make_it_surer() -> None:
    medians = []
    for count in (20, 80, 320):
        rng = np.random.default_rng(3)
        fits = [
            fit(trips(rng, offset_ns=0, drift_ppm=7, jitter=(1e5, 1e5), count=count))
            for _ in range(20)
        ]
        sigmas = [(f.offset_sigma_ns, f.drift_sigma) for f in fits]
        medians.append(np.median(sigmas, axis=0).tolist())
    offsets, drifts = zip(*medians, strict=True)
    assert list(offsets) == sorted(offsets, reverse=True)
    assert list(drifts) == sorted(drifts, reverse=True)


def test_the_wrap_is_counted_on() -> None:
    """32 bits of microseconds last 71.6 min; here two hours, and a gap longer than two wraps."""
    before = WRAP * 1000 - 5 * S
    rng = np.random.default_rng(4)
    near = trips(rng, offset_ns=before, drift_ppm=30, jitter=(1e4, 1e4))
    late = trips(rng, offset_ns=before, drift_ppm=30, jitter=(1e4, 1e4), start_ns=10_000 * S)
    both = near + late
    counted = unrolled(both)
    assert counted[0] == near[0].micros
    assert counted == sorted(counted)
    assert counted[-1] > 3 * WRAP
    fitted = fit(both)
    assert fitted.drift_ppm == pytest.approx(30, abs=0.01)
    assert abs(error_ns(fitted, before, 30)) < 4 * fitted.offset_sigma_ns


def test_trips_out_of_order_at_the_wrap() -> None:
    """A sample from before the wrap after one from behind it."""
    assert unrolled([RoundTrip(0, 0, 5), RoundTrip(-10_000, -10_000, WRAP - 5)]) == [5, -5]


def test_both_clocks_convert_to_each_other() -> None:
    fitted = fit(
        trips(np.random.default_rng(5), offset_ns=7 * S, drift_ppm=-400, jitter=(1e4, 1e4))
    )
    assert fitted.host_ns(fitted.board_ns(123 * S)) == pytest.approx(123 * S, abs=1)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ([RoundTrip(0, 1, 0)] * 2, "at least 3 round trips, got 2"),
        ([RoundTrip(0, 1, 0)] * 9, "have the same time"),
        ([RoundTrip(5, 1, 0)] * 9, "before its request"),
    ],
)
def test_what_is_no_fit_says_so(made: list[RoundTrip], says: str) -> None:
    with pytest.raises(ControllerError, match=says):
        fit(made)


def test_a_fit_says_what_its_line_says() -> None:
    line = ClockFit(1000, 50.0, 2.5e-4, 1.0, 1e-6, 3.0, 9)
    assert line.drift_ppm == 250.0
    assert line.board_ns(1000) == 1050.0
    assert line.board_ns(5000) == 5051.0
    assert line.host_ns(line.board_ns(123_456)) == pytest.approx(123_456)
    assert RoundTrip(5, 12, 0).delay_ns == 7


def test_far_from_where_its_trips_were_the_uncertainty_is_that_of_the_drift() -> None:
    """The reference is the trip in the middle of the list, which is not the middle in time."""
    made = [RoundTrip(t, t + 2000, (t + 1000) // 1000) for t in (0, S, 100 * S)]
    fitted = fit(made)
    assert fitted.reference_ns == S + 1000
    centre = 32 * S  # of the three, from the reference, if they count alike
    assert fitted.offset_sigma_ns > 0.9 * fitted.drift_sigma * centre

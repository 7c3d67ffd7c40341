"""The turbulence of MIL-F-8785C: exact discretisation, spectra, intensities, mean wind, seeds.

Statistical checks fail for a correct model with a probability of ``CHANCE`` for each test, whatever
the number of values that it compares.  The seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from engine_parts import check_equal
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import integrate, linalg, stats

from rtsim import Scenario
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Vector
from rtsim.equations.compiling import plainly
from rtsim.models import wind as module
from rtsim.models.wind import AIR_INPUTS, DRYDEN_OUTPUTS, dryden, high_intensity, mean_wind, scales
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.testing.determinism import trace_of

Array = NDArray[np.float64]
FT, CHANCE = 0.3048, 1e-4
SPEED, ALTITUDE, WIND, SPAN = 60.0, 150.0, 12.0, 20.0
COMPONENTS = DRYDEN_OUTPUTS.names[3:]


@pytest.fixture(autouse=True)
def helpers_as_plain_python() -> Iterator[None]:
    """Runs compile the equations; a test that calls a helper function itself does not."""
    with plainly():
        yield


def air(
    period: float = 0.05,
    step: float = 0.05,
    until: float = 6400.0,
    inputs: Mapping[str, float] | None = None,
) -> Scenario:
    out = Scenario("air", until=until)
    given_ = {"airspeed": SPEED, "altitude": ALTITUDE, **(inputs or {})}
    parameters = {"wind_20ft": WIND, "span": SPAN}
    out.plant("air", dryden(period), step=step, inputs=given_, parameters=parameters)
    return out


def at_ticks(run: Recording, name: str, period: float) -> Array:
    """The values that hold after each tick, without the one at the end of the run."""
    ns = run.track("air").ns
    wanted = np.arange(0, run.end_ns, round(period * 1e9))
    found: Array = run.track("air").column(name)[np.searchsorted(ns, wanted, side="right") - 1]
    return found


# -- the spectra of the specification, one-sided over the spatial frequency rad/m ------------------

Spectrum = Callable[[Array], Array]


def spectra(stretch: float = 1.0) -> dict[str, Spectrum]:
    """MIL-F-8785C, 3.7.1.2 and 3.7.5, at ``ALTITUDE``; ``stretch`` plants a wrong scale length."""
    low = ALTITUDE / FT
    ratio = 0.177 + 0.000823 * low
    length, length_w = stretch * ALTITUDE / ratio**1.2, stretch * ALTITUDE
    sigma_w = 0.1 * WIND
    sigma = sigma_w / ratio**0.4

    def along(o: Array) -> Array:
        found: Array = sigma**2 * 2 * length / math.pi / (1 + (length * o) ** 2)
        return found

    def across(s: float, l: float) -> Spectrum:  # noqa: E741
        return lambda o: s**2 * l / math.pi * (1 + 3 * (l * o) ** 2) / (1 + (l * o) ** 2) ** 2

    def rolling(o: Array) -> Array:
        shape = 0.8 * (math.pi * length_w / (4 * SPAN)) ** (1 / 3)
        found: Array = sigma_w**2 / length_w * shape / (1 + (4 * SPAN * o / math.pi) ** 2)
        return found

    def gradient(of: Spectrum, k: int) -> Spectrum:
        return lambda o: o**2 / (1 + (k * SPAN * o / math.pi) ** 2) * of(o)

    lateral, vertical = across(sigma, length), across(sigma_w, length_w)
    return dict(
        zip(
            COMPONENTS,
            (along, lateral, vertical, rolling, gradient(vertical, 4), gradient(lateral, 3)),
            strict=True,
        )
    )


def sampled_spectrum(of: Spectrum, frequencies: Array, period: float, folds: int = 30) -> Array:
    """Two-sided spectrum over rad/s of samples every ``period`` s: all aliases, unit^2 s / rad."""
    k = np.arange(-folds, folds + 1)[:, None]
    every = np.abs(frequencies + 2 * math.pi * k / period)
    total: Array = 0.5 * (of(every / SPEED) / SPEED).sum(axis=0)
    return total


@cache
def long_run(name: str, period: float = 0.05) -> Array:
    return at_ticks(flown(period), name, period)


@cache
def flown(period: float) -> Recording:
    return trace_of(air(period=period, step=period), seed=11)


def in_interval(values: Array, of: Spectrum, period: float, tests: int) -> bool:
    """Whether bands of the periodogram lie in the chi-squared interval of the spectrum.

    The ordinates of the periodogram are independent and exponential about the spectrum.  A band
    sums those of an octave, up to 0.6 of the highest frequency.
    """
    n = values.size
    power = np.abs(np.fft.rfft(values)) ** 2 * period / (2 * math.pi * n)
    omega: Array = 2 * math.pi * np.fft.rfftfreq(n, period).astype(np.float64)
    chosen = np.arange(8, int(0.3 * n))
    ratio = power[chosen] / sampled_spectrum(of, omega[chosen], period)
    band = np.floor(np.log2(chosen / chosen[0])).astype(int)
    share = CHANCE / (tests * (band[-1] + 1))
    for b in range(band[-1] + 1):
        inside = ratio[band == b]
        low, high = stats.chi2.interval(1 - share, 2 * inside.size)
        if not low < 2 * inside.sum() < high:
            return False
    return True


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", COMPONENTS)
def test_the_spectrum_is_that_of_the_specification(name: str) -> None:
    assert in_interval(long_run(name), spectra()[name], 0.05, len(COMPONENTS))


@pytest.mark.parametrize("name", ["turbulence_x", "turbulence_z"])
def test_the_spectrum_does_not_depend_on_the_period(name: str) -> None:
    assert in_interval(long_run(name, 0.2), spectra()[name], 0.2, 2)


@pytest.mark.parametrize("name", COMPONENTS)
def test_another_scale_length_is_caught(name: str) -> None:
    assert not in_interval(long_run(name), spectra(stretch=1.3)[name], 0.05, len(COMPONENTS))


def test_a_first_order_filter_in_place_of_the_second_is_caught() -> None:
    first = spectra()["turbulence_x"]
    assert not in_interval(long_run("turbulence_y"), first, 0.05, len(COMPONENTS))


# -- variance and independence ---------------------------------------------------------------------


@cache
def ensemble(ticks: int, count: int = 3000) -> Array:
    """Outputs (count, 6) after ``ticks`` ticks of independent turbulence."""
    rng, none = np.random.default_rng(5), np.zeros(0)
    model: Any = dryden(0.4)
    u, p = np.array([SPEED, ALTITUDE, 0.0, 0.0]), np.array([WIND, 0.0, 0.1, 1e-3, SPAN])
    # a level aircraft below 1000 ft: the axes of the turbulence are those of the body
    rows = np.zeros((count, DRYDEN_OUTPUTS.size))
    for row in rows:
        z = model.discrete.initial()
        for _ in range(ticks):
            z[:8] = rng.standard_normal(8)
            model.tick(np.ones(1), 0.0, none, z, u, p)
        model.output(0.0, none, z, u, p, row)
    return rows[:, 3:]


@pytest.mark.parametrize("ticks", [1, 3])
def test_the_variance_is_the_integral_of_the_spectrum(ticks: int) -> None:
    """From the first tick on; the values of the ensemble are independent."""
    found = ensemble(ticks)
    low, high = stats.chi2.interval(1 - CHANCE / found.shape[1], len(found))
    for column, (name, of) in zip(found.T, spectra().items(), strict=True):
        expected, _ = integrate.quad(lambda o, of=of: float(of(np.array(o))), 0, np.inf, limit=200)
        assert low < (column**2).sum() / expected < high, name


def test_components_are_independent_but_for_a_velocity_and_its_gradient() -> None:
    """The mean of the products of unit values is 0 within its interval.

    A stationary process and its derivative have no correlation either, but the rate is the
    derivative through a lag, which correlates it with the velocity.
    """
    found = ensemble(1)
    unit = found / found.std(axis=0)
    products = unit.T @ unit / math.sqrt(len(unit))
    pairs = [(i, j) for i in range(6) for j in range(i)]
    limit = stats.norm.isf(CHANCE / (2 * len(pairs)))
    for i, j in pairs:
        assert (abs(products[i, j]) < limit) == ((i, j) not in {(4, 2), (5, 1)})


# -- the exact discretisation ----------------------------------------------------------------------

rates = st.floats(1e-4, 20.0)


def continuous(slow: float, fast: float) -> tuple[Array, Array]:
    """The filter of a velocity and its gradient over one period: drift, and intensity of noise."""
    c1, c2 = math.sqrt(1.5), (1 - math.sqrt(3)) / math.sqrt(2)
    drift = np.array([[-slow, 0, 0], [slow, -slow, 0], [fast * c1, fast * c2, -fast]])
    return drift, np.diag([2 * slow, 0.0, 0.0])


def discrete(slow: float, fast: float, started: bool = True) -> tuple[Array, Array]:
    """The transition matrix and the covariance of the noise of one period in the model."""
    columns = []
    for i in range(6):
        z = np.zeros(6)
        z[i] = 1.0
        module.move_pair(z[:3], z[3:], slow, fast, started)
        columns.append(z[:3])
    moved, added = np.array(columns[:3]).T, np.array(columns[3:]).T
    return moved, added @ added.T


def van_loan(drift: Array, intensity: Array) -> tuple[Array, Array]:
    """Transition matrix and covariance by one matrix exponential (Van Loan, 1978)."""
    n = len(drift)
    block = np.block([[-drift, intensity], [np.zeros((n, n)), drift.T]])
    found = linalg.expm(block)
    moved = found[n:, n:].T
    return moved, moved @ found[:n, n:]


@settings(deadline=None, max_examples=40)
@given(st.floats(1e-4, 2.0), st.floats(1e-4, 2.0))
def test_transition_and_noise_are_exact(slow: float, fast: float) -> None:
    moved, noise = discrete(slow, fast)
    expected, covariance = van_loan(*continuous(slow, fast))
    np.testing.assert_allclose(moved, expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose(noise, covariance, rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(rates, rates)
def test_the_distribution_is_stationary(slow: float, fast: float) -> None:
    """The first tick draws from the distribution that every later tick keeps."""
    _, start = discrete(slow, fast, started=False)
    moved, noise = discrete(slow, fast)
    np.testing.assert_allclose(moved @ start @ moved.T + noise, start, rtol=0, atol=1e-13)
    drift, intensity = continuous(slow, fast)
    balance = drift @ start + start @ drift.T + intensity
    np.testing.assert_allclose(balance / (slow + fast), 0.0, atol=1e-14)


@settings(deadline=None, max_examples=40)
@given(rates, st.floats(0.2, 5.0), st.integers(2, 6))
def test_several_short_periods_are_one_long_period(slow: float, ratio: float, n: int) -> None:
    moved, noise = discrete(slow / n, ratio * slow / n)
    whole, total = discrete(slow, ratio * slow)
    together, summed = np.eye(3), np.zeros((3, 3))
    for _ in range(n):
        together, summed = moved @ together, moved @ summed @ moved.T + noise
    np.testing.assert_allclose(together, whole, rtol=0, atol=1e-13)
    np.testing.assert_allclose(summed, total, rtol=0, atol=1e-13)


def test_equal_time_constants_are_no_special_case() -> None:
    for slow in (1e-3, 0.3, 4.0):
        at, beside = discrete(slow, slow)[0], discrete(slow, slow * (1 + 1e-9))[0]
        np.testing.assert_allclose(at, beside, rtol=0, atol=1e-8)
        around = discrete(slow, slow + 1.0 - 1e-9)[0], discrete(slow, slow + 1.0 + 1e-9)[0]
        np.testing.assert_allclose(*around, rtol=0, atol=1e-8)


# -- scales and mean wind of the specification -----------------------------------------------------


def test_scales_of_the_low_altitude_model() -> None:
    length, length_w, sigma, sigma_w = scales(100 * FT, 10.0, 1e-3)
    assert length_w == pytest.approx(100 * FT)
    assert length / FT == pytest.approx(100 / (0.177 + 0.0823) ** 1.2)
    assert sigma_w == pytest.approx(1.0)
    assert sigma == pytest.approx(1 / (0.177 + 0.0823) ** 0.4)
    assert scales(1000 * FT, 10.0, 1e-3) == pytest.approx((1000 * FT, 1000 * FT, 1.0, 1.0))
    assert scales(0.0, 10.0, 1e-3) == scales(10 * FT, 10.0, 1e-3)


@pytest.mark.parametrize(
    ("altitude", "exceedance", "sigma"),
    [(3750, 1e-2, 7.4), (7500, 1e-3, 10.1), (25000, 1e-5, 20.0), (80000, 1e-6, 7.2),
     (99000, 1e-6, 7.2), (15000, 0.2, 0.0), (2750, 1e-3, 10.1)],
)  # fmt: skip
def test_scales_above_2000_ft(altitude: float, exceedance: float, sigma: float) -> None:
    expected = (1750 * FT, 1750 * FT, sigma * FT, sigma * FT)
    assert scales(altitude * FT, 10.0, exceedance) == pytest.approx(expected)


def test_intensity_between_the_curves_of_figure_7() -> None:
    assert high_intensity(15000 * FT, 10**-3.5) == pytest.approx(0.5 * (8.0 + 11.6) * FT)
    values = [high_intensity(9000.0, 10.0**-e) for e in np.linspace(1, 6, 51)]
    assert (np.diff(values) >= 0).all()


def test_scales_have_no_jump_between_the_models() -> None:
    heights = np.linspace(900, 2100, 2401) * FT
    found = np.array([scales(h, 10.0, 1e-3) for h in heights])
    assert np.abs(np.diff(found, axis=0)).max() < 0.2


def test_mean_wind_is_logarithmic_and_comes_from_where_it_says() -> None:
    assert mean_wind(20 * FT, 8.0, 0.15 * FT) == pytest.approx(8.0)
    assert mean_wind(300 * FT, 8.0, 2.0 * FT) == pytest.approx(8 * math.log(150) / math.log(10))
    assert mean_wind(5000 * FT, 8.0, 0.15 * FT) == mean_wind(1000 * FT, 8.0, 0.15 * FT)
    assert mean_wind(0.0, 8.0, 4.0) == 0.0
    out = air(until=1.0, inputs={"altitude": 20 * FT})
    for source, expected in ((0.0, (-WIND, 0.0)), (math.pi / 2, (0.0, -WIND))):
        out.set("air.wind_from", source)
        run = trace_of(out)
        wind = (run["air.wind_north"][-1], run["air.wind_east"][-1])
        assert wind == pytest.approx(expected, abs=1e-12)


def test_near_the_ground_the_turbulence_is_level_and_far_above_it_in_body_axes() -> None:
    model: Any = dryden()
    z = model.discrete.initial()
    z[8:16] = np.arange(1.0, 9.0)
    p = np.array([WIND, 0.0, 0.1, 1e-3, SPAN])

    def gusts(altitude: float, roll: float, pitch: float) -> Vector:
        y = np.zeros(DRYDEN_OUTPUTS.size)
        u = np.array([SPEED, altitude, roll, pitch])
        model.output(0.0, np.zeros(0), z, u, p, y)
        return y[3:6]

    np.testing.assert_allclose(gusts(3000.0, 0.4, -0.3), gusts(3000.0, 0.0, 0.0))
    level, banked = gusts(100.0, 0.0, 0.0), gusts(100.0, math.pi / 2, 0.0)
    np.testing.assert_allclose(banked, [level[0], level[2], -level[1]])
    steep = gusts(100.0, 0.0, math.pi / 2)
    np.testing.assert_allclose(steep, [-level[2], level[1], level[0]])


# -- runs ------------------------------------------------------------------------------------------


def test_outputs_have_the_names_of_the_inputs_of_a_body() -> None:
    shear = [name for name in AIR_INPUTS.names if name.startswith("shear")]
    assert sorted([*DRYDEN_OUTPUTS.names, *shear]) == sorted(AIR_INPUTS.names)
    for signal in DRYDEN_OUTPUTS:
        assert signal.unit == AIR_INPUTS[signal.name].unit


def test_the_steps_of_plants_do_not_change_the_turbulence() -> None:
    coarse, fine = (trace_of(air(0.1, step, until=20)) for step in (0.1, 0.025))
    for name in COMPONENTS:
        assert (at_ticks(coarse, name, 0.1) == at_ticks(fine, name, 0.1)).all()


def test_a_seed_repeats_the_turbulence_and_another_changes_it() -> None:
    one, again, other = (trace_of(air(until=5), seed=seed) for seed in (1, 1, 2))
    assert compare_exact(one, again) is None
    assert compare_exact(one, other) is not None
    assert not (one["air.turbulence_z"] == 0.0).all()


def gusty() -> Scenario:
    found = load_scenario("f16", {"case": "13.1", "turbulence": "1e-3"})
    found.until_ns = 2_000_000_000
    return found


def test_the_compiled_engine_takes_a_flight_in_turbulence() -> None:
    assert check_equal(gusty) > 100
    assert simulate(gusty(), engine="compiled").certificate.engine.startswith("compiled")


def test_a_flight_in_turbulence_is_shaken_and_stays_controlled() -> None:
    calm, shaken = (
        trace_of(load_scenario("f16", {"case": "13.1", "turbulence": level}), until=20, seed=4)
        for level in ("0", "1e-3")
    )
    before = calm.time < 5, shaken.time < 5  # then it climbs
    still, moved = (
        np.ptp(r["f16.alpha_deg"][b]) for r, b in zip((calm, shaken), before, strict=True)
    )
    assert still < 0.01
    assert 1.0 < moved < 15.0
    assert abs(shaken["f16.altitude_ft"][-1] - calm["f16.altitude_ft"][-1]) < 60.0


def test_a_probability_that_the_figure_does_not_have_is_refused() -> None:
    with pytest.raises(RtsimError, match="exceedance"):
        trace_of(load_scenario("f16", {"turbulence": "0.5"}), until=1)

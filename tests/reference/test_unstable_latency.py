"""The latency that the `unstable` loop bears: simulated, and from its discretised closed loop."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import expm
from scipy.optimize import brentq

from rtsim.models.unstable import scenario
from rtsim.testing.determinism import trace_of

PERIOD = 0.1
Matrix = NDArray[np.float64]
A = np.array([[0.0, 1.0], [2.0, 0.0]])
B = np.array([[0.0], [1.0]])
GAIN = np.array([8.0, 4.0])


def held(seconds: float) -> tuple[Matrix, Matrix]:
    """Transition over ``seconds`` with the input held: Phi (2, 2) and Gamma (2, 1)."""
    block = expm(np.block([[A, B], [np.zeros((1, 3))]]) * seconds)
    return block[:2, :2], block[:2, 2:]


def spectral_radius(latency: float) -> float:
    """Of the loop over one period; the state is (x, v, sum, forces under way, newest first)."""
    whole, rest = divmod(latency, PERIOD)
    under_way = int(whole) + 1
    phi, _ = held(PERIOD)
    phi_new, gamma_new = held(PERIOD - rest)
    _, gamma_old = held(rest)
    closed = np.zeros((3 + under_way, 3 + under_way))
    force = np.concatenate((-GAIN, [-1.0], np.zeros(under_way)))  # u_k = -K x - s
    # Newest first: u_k, then column 3 is u_(k-1); within a period u_(k-d-1) acts, then u_(k-d).
    arriving = force if under_way == 1 else np.eye(3 + under_way)[1 + under_way]
    closed[:2, :2] = phi
    closed[:2, 2 + under_way] += (phi_new @ gamma_old)[:, 0]
    closed[:2] += gamma_new @ arriving[None, :]
    closed[2, [0, 2]] = 0.5, 1.0  # s_k = s + x / 2
    closed[3] = force
    for i in range(1, under_way):
        closed[3 + i, 2 + i] = 1.0
    return float(max(abs(np.linalg.eigvals(closed))))


def grows(latency_ms: float) -> bool:
    """Whether the simulated state is larger in the last tenth of 120 s than in the fifth."""
    recording = trace_of(scenario(latency=round(latency_ms * 1e-3, 9), until=120))
    size = np.abs(recording["plant.x"])
    time = recording.time("plant") / 1e9
    return bool(size[(time > 108)].max() > size[(time > 48) & (time < 60)].max())


@pytest.mark.long
def test_simulated_limit_is_that_of_the_eigenvalues() -> None:
    limit = brentq(lambda latency: spectral_radius(latency) - 1.0, 0.0, 0.3, xtol=1e-9)
    low, high = 0.0, 300.0
    while high - low > 0.1:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if grows(middle) else (middle, high)
    assert limit == pytest.approx(0.23616, abs=1e-5)
    assert 1e3 * limit == pytest.approx(0.5 * (low + high), abs=1.0)


def test_the_loop_without_latency_is_stable() -> None:
    assert spectral_radius(0.0) < 1.0
    assert not grows(0.0)

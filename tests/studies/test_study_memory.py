"""The memory of a study does not grow with the number of its runs."""

from __future__ import annotations

import sys

import pytest

from tools.bench.study import GROWTH, peaks


@pytest.mark.live
@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_peaks_of_client_scheduler_and_worker_are_flat() -> None:
    few, many = peaks(10_000, workers=1), peaks(40_000, workers=1)
    for process, peak in many.items():
        assert peak <= GROWTH * few[process], process

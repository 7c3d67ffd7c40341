"""The picture of docs/cosimulation.md shows what the federates have exchanged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("helics")
pytest.importorskip("matplotlib")
from tools import federation_picture
from tools.federation_picture import PERIOD, READS, SIGNALS, draw_federation, federation


def test_each_value_is_read_one_period_after_its_publication(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    results = federation()
    monkeypatch.setattr(federation_picture, "federation", lambda: results)
    figures: list[Any] = []
    draw_federation(tmp_path / "picture.svg", lambda figure, _: figures.append(figure))
    (figure,) = figures
    for axis, (name, (signal, read, _)) in zip(figure.axes, SIGNALS.items(), strict=True):
        published, dots = axis.get_lines()[-3], axis.get_lines()[-1]
        assert np.array_equal(published.get_ydata(), results[name][signal])
        theirs = results[READS[name]]
        for at, value in zip(dots.get_xdata(), dots.get_ydata(), strict=True):
            k = int(np.searchsorted(theirs.time, at + 1.5 * PERIOD))
            if k < theirs.time.size:
                assert theirs[read][k] == pytest.approx(value, abs=1e-9)

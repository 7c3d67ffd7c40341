"""A run with more values than a live run can show: those are left out, and it says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gateway_parts import live

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Model
from rtsim.gateway import publishing as catalogues
from rtsim.gateway.client import ControlError
from rtsim.gateway.loop import Pipe
from rtsim.gateway.publishing import MOST_VALUES, Sampler, StateTable, catalogue, decode_sample
from rtsim.scenario.scenario import Scenario
from rtsim.timing.frames import Tally

MANY = 120_000


def decay(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[:] = -x


def scenario(*sizes: int) -> Scenario:
    """A plant of three states, and sources of so many values."""
    out = Scenario("large", until=1000)
    states = Signals(Signal("x", shape=(3,), initial=(1.0, 1.0, 1.0)))
    out.plant("plant", Model("plant", states, decay), step=0.05, solver="rk4")
    for k, many in enumerate(sizes):
        out.source(f"s{k}", Signals(Signal("v", shape=(many,))))
    return out


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path))


@pytest.mark.live
def test_a_part_of_more_values_than_can_be_shown_is_left_out_and_the_rest_is_there() -> None:
    with live(scenario(MANY)) as run:
        assert run.left_out == {"s0": MANY, "s0.v": MANY}
        assert list(run.signals) == ["plant.x_0", "plant.x_1", "plant.x_2"]
        assert 0 < float(np.sum(run.get("plant.x_0"))) <= 1
        with pytest.raises(ControlError, match="because s0 has too many values"):
            run.get("s0.v_7")
        run.pause()
        assert run.status.standing


@pytest.mark.live
def test_a_run_of_which_nothing_can_be_shown_can_be_held_and_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Pipe, "fits", lambda *_: False)
    with live(scenario()) as run:
        assert run.left_out == {"all of it": 3}
        assert list(run.signals) == []
        run.pause()
        assert run.status.standing


def test_what_is_listed_is_what_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are left out whole, by their number of values and by the bytes of their names."""
    system = scenario(MOST_VALUES - 2, 2, MOST_VALUES - 4).build(compile=False)
    for k in range(3):
        system.ports[f"s{k}"].value[:] = k
    listed = catalogue(system)
    assert list(listed["left_out"]) == ["s2.v", "s0", "s2"]
    assert [row["name"] for row in listed["signals"]] == [
        "plant.x_0", "plant.x_1", "plant.x_2", "s1.v_0", "s1.v_1"]  # fmt: skip
    values = decode_sample(Sampler(system, Tally([])).take(vars(StateTable())), 0).values
    assert values.tolist() == [1.0, 1.0, 1.0, 1.0, 1.0]
    assert [row["name"] for row in listed["parameters"]] == ["s0.v", "s1.v"]
    monkeypatch.setitem(catalogues._MOST_BYTES, "signals", 150)
    assert list(catalogue(system)["left_out"]) == ["s2.v", "s0", "s1", "s2"]


def test_a_pipe_knows_what_its_other_end_takes() -> None:
    """Too many bytes, too many values."""
    pipe = Pipe.__new__(Pipe)
    assert pipe.fits({"run": [1] * 1000})
    assert not pipe.fits({"run": [1] * 100_001})
    assert not pipe.fits({"run": "x" * (1 << 20)})

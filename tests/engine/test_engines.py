"""The compiled engine against the interpreter: every row of every run is equal, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest
from engine_parts import check_equal
from engine_scenarios import scenarios
from hypothesis import given, settings

from rtsim import Scenario
from rtsim.core.errors import ModelError
from rtsim.engine.compiled import eligibility, engine
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import known_scenarios, load_scenario

RAN: list[int] = []


@given(scenarios())
@settings(max_examples=60)
def test_random_scenarios_have_equal_rows(make: Callable[[], Scenario]) -> None:
    RAN.append(check_equal(make))


def test_most_of_them_ran_on_the_compiled_engine() -> None:
    if not RAN:  # this test was chosen alone
        test_random_scenarios_have_equal_rows()
    assert sum(tags > 20 for tags in RAN) > len(RAN) / 2


SHIPPED: dict[str, tuple[float, dict[str, str]]] = {
    "ball": (3, {}), "f16": (2, {}), "unstable": (3, {"latency": "0.02"}), "valves": (20, {}),
    "nesc": (2, {}), "orbit": (6, {}), "queue": (100, {}), "job-shop": (40000, {}),
    "fox-and-rabbit": (2, {}), "life": (2, {}), "machine-shop": (4000, {}),
    "f16-by-hand": (2, {}), "tracking": (2, {}),
}  # fmt: skip
ALL_IN_PYTHON = {
    "fox-and-rabbit", "queue", "machine-shop",  # no plant
    "f16-by-hand", "tracking",  # a pilot's inputs
    "02_sampled_controller", "03_latency",
    "08_queue", "09_sensor_fault", "10_controller_in_c", "11_can_bus",
}  # fmt: skip
"""No tag of these runs on the compiled engine, and both runs are the interpreter's."""


def test_each_shipped_scenario_is_compared() -> None:
    assert set(SHIPPED) == set(known_scenarios())


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_scenarios_have_equal_rows(name: str) -> None:
    until, settings_ = SHIPPED[name]

    def make() -> Scenario:
        found = load_scenario(name, settings_)
        found.until_ns = round(until * 1e9)
        return found

    assert (check_equal(make) == 0) == (name in ALL_IN_PYTHON)


EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[p.stem for p in EXAMPLES])
def test_examples_have_equal_rows(path: Path) -> None:
    tags = check_equal(lambda: load_scenario(str(path)))
    assert (tags == 0) == (path.stem in ALL_IN_PYTHON)


def broken() -> NoReturn:
    raise ModelError("the compiled engine does not compile:\nsome reason")


def test_an_engine_that_does_not_compile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_kernel", cache(broken))
    monkeypatch.setattr(eligibility, "kept", lambda *_: True)
    orbit = load_scenario("orbit")
    with pytest.raises(ModelError, match="does not compile"):
        simulate(orbit, engine="compiled")
    result = simulate(orbit)
    assert result.certificate.engine == "interpreted: the compiled engine does not compile"

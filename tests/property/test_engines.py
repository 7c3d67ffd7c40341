"""The compiled engine against the interpreter: every row of every run is equal, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest
from engine_parts import scenarios
from hypothesis import given, settings

from rtsim import Scenario
from rtsim.core.errors import ModelError, RtsimError
from rtsim.engine.compiled import stretch
from rtsim.engine.executive import Executive
from rtsim.record.exact import compare_exact
from rtsim.record.memory_recorder import MemoryRecorder
from rtsim.record.reading import Recording
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario


class Outcome(NamedTuple):
    recording: Recording
    error: str
    """What the run ended with; empty for one that came to its end."""
    tags: int
    """So many ran on the compiled engine."""


def ran(scenario: Scenario, engine: str) -> Outcome:
    recorder, kept, run = MemoryRecorder(), [], Executive.run

    def noted(self: Executive) -> None:
        kept.append(self)
        run(self)

    error = ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Executive, "run", noted)
        try:
            simulate(scenario, recorder=recorder, engine=engine)
        except RtsimError as raised:
            error = f"{type(raised).__name__}: {raised}"
    found = kept[0].stretches
    return Outcome(recorder.recording(), error, 0 if found is None else found.tags)


def check_equal(make: Callable[[], Scenario]) -> int:
    """Both engines give the same rows, events and error; returns the compiled engine's tags."""
    compiled, interpreted = ran(make(), "compiled"), ran(make(), "interpreted")
    assert compiled.error == interpreted.error
    assert compare_exact(interpreted.recording, compiled.recording) is None
    assert compiled.recording.events == interpreted.recording.events
    assert interpreted.tags == 0
    return compiled.tags


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
    "fox-and-rabbit": (2, {}), "life": (2, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_scenarios_have_equal_rows(name: str) -> None:
    until, settings_ = SHIPPED[name]

    def make() -> Scenario:
        found = load_scenario(name, settings_)
        found.until_ns = round(until * 1e9)
        return found

    check_equal(make)


EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[p.stem for p in EXAMPLES])
def test_examples_have_equal_rows(path: Path) -> None:
    check_equal(lambda: load_scenario(str(path)))


def broken() -> NoReturn:
    raise ModelError("the compiled engine does not compile:\nsome reason")


def test_an_engine_that_does_not_compile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretch, "_kernel", broken)
    monkeypatch.setattr(stretch, "kept", lambda *_: True)
    orbit = load_scenario("orbit")
    with pytest.raises(ModelError, match="does not compile"):
        simulate(orbit, engine="compiled")
    result = simulate(orbit)
    assert result.certificate.engine == "interpreted: the compiled engine does not compile"

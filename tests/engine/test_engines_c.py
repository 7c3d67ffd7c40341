"""C controllers in this process on both engines: equal rows, and no step of the C is run twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from called_parts import EXITS, NOT_FINITE, built, in_c
from engine_parts import PLANT, check_equal, ran

from hitl.controllers import in_process
from hitl.controllers.in_process import InProcess
from rtsim import PythonController, Scenario, Signal, Signals
from rtsim.components.latency import Fixed, LatencyModel, Uniform
from rtsim.components.request_log import steps_of
from rtsim.core.errors import ControllerError
from rtsim.core.tag import Tag
from rtsim.engine.compiled import engine as compiled_engine

INPUTS = {"m": "tank.a", "n": "tank.y", "small": "set.small"}


def failing(t, u, s, p, y):  # type: ignore[no-untyped-def]  # noqa: ARG001
    y[0] = u[0] / (0.5 - t if t < 0.5 else 0.0)


def scenario(
    fault: int = 0, compute: LatencyModel | None = None, small: float = 1.0, **more: Any
) -> Scenario:
    """A plant and the C; ``small`` is an input of 8 bits from 0.3 s on."""
    out = Scenario("called", until=1)
    out.plant(
        "tank", PLANT, step="1/100", update_period="1/50", inputs={"first": 0.0, "second": 0.0}
    )
    out.source("set", Signals(Signal("small", initial=1.0)))
    out.at(0.3, "set.small", small)
    out.controller(
        "c", in_c(fault), period="1/50", inputs=INPUTS, compute=compute or Fixed(0), **more
    )
    return out


def with_a_failure() -> Scenario:
    """Another controller fails in the same tag, after the C has run its step."""
    out = scenario(priority=0)
    law = PythonController(failing, Signals("a"), Signals("z"), compile=True)
    out.controller("d", law, period="1/50", inputs={"a": "tank.a"}, failure="hold", priority=5)
    return out


@pytest.mark.parametrize("compute", [Fixed(0), Fixed("0.005"), Fixed("0.03"), Uniform(0.0, 0.03)])
def test_it_runs_on_the_compiled_engine(compute: LatencyModel) -> None:
    assert check_equal(lambda: scenario(compute=compute)) > 40


def test_a_step_that_is_undone_is_not_run_again() -> None:
    outcome = ran(with_a_failure(), "compiled")
    assert outcome.tags > 20
    counts = outcome.recording["messages/c.count"]
    assert counts.tolist() == list(range(1, len(counts) + 1)), "one step for each request"
    check_equal(with_a_failure)


def test_a_second_run_of_the_step_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(self: InProcess, kept: in_process.KeptStep, tag: Any) -> int:  # noqa: ARG001
        self._log.repeated()
        return int(self._step(self._step_u, self._step_y))

    monkeypatch.setattr(InProcess, "_repeated", again)
    with pytest.raises(AssertionError):
        check_equal(with_a_failure)


@pytest.mark.parametrize("failure", ["end", "hold"])
@pytest.mark.parametrize("compute", [Fixed(0), Fixed("0.005")])
@pytest.mark.parametrize(
    ("fault", "small", "wanted"),
    [(EXITS, 1.0, "called exit(3)"), (NOT_FINITE, 1.0, "answered nan for u"),
     (0, 200.0, "small = 200.0 of feedback does not fit its type int8")],
)  # fmt: skip
def test_failures_are_the_same(
    fault: int, small: float, wanted: str, compute: LatencyModel, failure: str
) -> None:
    make: Callable[[], Scenario] = lambda: scenario(fault, compute, small, failure=failure)  # noqa: E731
    outcome = ran(make(), "compiled")
    said = outcome.error or next(e.text for e in outcome.recording.events if e.kind == "Failed")
    assert wanted in said
    assert (outcome.error == "") == (failure == "hold")
    assert outcome.tags > 8
    check_equal(make)


def test_a_step_that_is_repeated_with_other_inputs_is_an_error() -> None:
    kept = in_process.KeptStep(Tag(5), np.array([1.0, -0.0]), np.zeros(1), 0, 0)
    assert kept.repeats(Tag(5), np.array([1.0, -0.0]))
    assert not kept.repeats(Tag(5), np.array([1.0, 0.0]))
    assert not kept.repeats(Tag(6), np.array([1.0, -0.0]))
    controller = in_c().fresh()
    controller._log.kept = kept
    with pytest.raises(ControllerError, match="report it, and use --engine interpreted"):
        controller.send(Tag(5), np.zeros(3))
    controller.close()


def test_a_full_log_ends_the_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "_ROWS", 3)
    assert check_equal(scenario) > 20


def test_draws_that_run_out_undo_a_step_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled engine goes on after each step that it has left to the interpreter."""
    monkeypatch.setattr(compiled_engine, "_MOST_DRAWS", 4)
    assert check_equal(lambda: scenario(compute=Uniform(0.0, 0.003))) > 100


def test_a_late_time_is_the_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_process, "_LATEST_S", 0.5)
    assert 20 < check_equal(scenario) < 95


@pytest.mark.parametrize("compute", [Fixed(0), Fixed("0.03"), Fixed("0.015")])
def test_what_a_checkpoint_saves_is_the_same(
    compute: LatencyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step with its inputs, the sum over the answers, and the request that is under way."""
    saved: list[dict[str, Any]] = []
    close = InProcess.close

    def noted(self: InProcess) -> None:
        if self._library is not None:
            saved.append(self.save() | {"took": len(self.took_ns)})
        close(self)

    monkeypatch.setattr(InProcess, "close", noted)
    for engine in ("compiled", "interpreted"):
        ran(scenario(compute=compute), engine)
    assert saved[0]["steps"] > 20
    assert saved[0]["took"] == saved[0]["steps"]
    for key in ("steps", "open", "asked", "checksum", "took"):
        assert saved[0][key] == saved[1][key], key
    first, second = (steps_of(s, 3, "c") for s in saved)
    assert [tag for tag, _ in first] == [tag for tag, _ in second]
    assert all(a.tobytes() == b.tobytes() for (_, a), (_, b) in zip(first, second, strict=True))


def test_one_without_outputs_or_not_loaded_has_no_address() -> None:
    controller = in_c()
    assert controller.by_address() is None
    loaded = controller.fresh()
    found = loaded.by_address()
    assert found is not None
    assert found[0] > 0
    loaded.close()
    assert loaded.by_address() is None
    assert built().kind == "plain"

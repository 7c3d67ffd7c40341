"""Conformance check for packages that add a kind of pilot task."""

from __future__ import annotations

from typing import Any

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals
from rtsim.equations.model import Model
from rtsim.models.piloting.findings import Findings
from rtsim.models.piloting.task import Flying, Task, add_flying, measure
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario


def check_task(kind: type[Task], data: dict[str, Any] | None = None, seconds: float = 2.0) -> None:
    """Check that a class obeys the rules for pilot tasks.

    ``data`` contains the entries of a task. The kind must be registered, by an entry point or by
    ``KINDS.add``. The checks are:

    - An unknown entry is rejected.
    - The task must work in a run whose aircraft does not move.
    - Both engines and a replay must record the same rows.
    - After ``seconds`` s, findings can be computed.
    """
    task = kind.from_data(dict(data or {}), "the check")
    model = task.model()
    assert model.name == kind.kind, f"the model is called {model.name}, the kind {kind.kind}"
    unknown = {"no_such_entry_of_a_task": 1}
    try:
        kind.from_data({**(data or {}), **unknown}, "the check")
    except ScenarioError:
        pass
    else:
        raise AssertionError(f"{kind.__name__}.from_data accepts {next(iter(unknown))}")
    assert task.duration > 0.0, f"the duration is {task.duration} s"
    missing = set(task.needs) - set(model.inputs.names)
    assert not missing, f"needs names {sorted(missing)}, which are no inputs of the model"
    runs = [_flown(task, seconds, engine) for engine in ("compiled", "interpreted")]
    assert runs[0].digest() == runs[1].digest(), "the engines record different rows"
    found = measure(runs[0])
    assert isinstance(found, Findings), f"findings returns a {type(found).__name__}"
    assert found.kind == kind.kind, f"the findings are of {found.kind}"
    again = rerun(runs[0], _scenario(task, seconds))
    assert again.digest() == runs[0].digest(), "a replay records other rows"


def _scenario(task: Task, seconds: float) -> Scenario:
    out = Scenario("check", until=seconds)
    inputs = task.model().inputs
    out.plant("aircraft", Model("still", states=inputs), step=0.01)
    names = [*dict.fromkeys((*getattr(task, "axes", ()), "pitch", "roll"))]
    stick = Signals(*(Signal(name, low=-1.0, high=1.0) for name in names))
    add_flying(out, Flying(stick, 0.01), task, {s.name: f"aircraft.{s.name}" for s in inputs})
    return out


def _flown(task: Task, seconds: float, engine: str) -> Any:
    return simulate(_scenario(task, seconds), engine=engine).recording()

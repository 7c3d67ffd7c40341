"""A fault planted in what compiled code is given is found, for each kind of part.

The fault is in the compiled engine's table, vectors or random numbers only; the interpreter runs
the same scenario without it.  A reset is always the interpreter's, so it has none of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from called_parts import in_c
from engine_parts import GUARDED, check_equal
from engine_scenarios import GAIN, feedback

from rtsim import PythonController, Scenario, Signal, Signals
from rtsim.components.latency import Fixed, Gamma, Loss
from rtsim.engine.compiled.engine import CompiledEngine
from rtsim.engine.compiled.records import LOST
from rtsim.engine.compiled.table import Draws, Table
from rtsim.engine.compiled.transfer import copy_in

Fault = Callable[[Table], None]


def scenario() -> Scenario:
    """One of each kind of part."""
    out = Scenario("planted", until=2)
    out.plant(
        "vessel", GUARDED, step="1/100", solver="rk4", update_period="1/50",
        inputs={"first": "law.u", "second": "gust.w"},
    )  # fmt: skip
    law = PythonController(
        feedback, Signals("m", "n"), Signals("u", "v"),
        parameters=GAIN, memory=Signals("sum"), compile=True,
    )  # fmt: skip
    out.controller(
        "law", law, period="1/50", inputs={"m": "eye.seen", "n": "set.point"},
        compute=Gamma(2.0, 0.001), transport=Loss(Gamma(2.0, 0.002), 0.3),
    )  # fmt: skip
    out.controller(
        "c", in_c(), period="1/50", inputs={"m": "vessel.a", "n": "vessel.y", "small": 1.0},
        compute=Fixed("0.003"),
    )  # fmt: skip
    out.sensor("eye", {"seen": "vessel.a"}, period="1/50", transport=Fixed("0.002"))
    out.noise("gust", Signals("w"), deviation=0.01, period="1/50")
    out.source("set", Signals(Signal("point", initial=0.1)))
    out.at(0.905, "set.point", 0.3)
    return out


def test_both_engines_agree_without_a_fault() -> None:
    assert check_equal(scenario) > 100


def nudge(vector: Any) -> None:
    """Change the last bit of the first number."""
    vector[0] = np.nextafter(vector[0], np.inf)


def task(table: Table, name: str) -> Any:
    return table.tasks[table.task_numbers[name]]


def topic(table: Table, name: str) -> Any:
    return table.topics[table.topic_numbers[name]]


def longer(record: Callable[[Table, str], Any], name: str) -> Fault:
    """Return a fault that adds 1 ns to a constant latency."""

    def plant(table: Table) -> None:
        record(table, name)["delay"] += 1

    return plant


def vessel(table: Table, _: str) -> Any:
    return table.plants[0]


def without_wires(record: Callable[[Table, str], Any], name: str) -> Fault:
    def plant(table: Table) -> None:
        record(table, name)["copies"]["count"] = 0

    return plant


def without_guards(table: Table) -> None:
    vessel(table, "")["drive"] = 0


def other_directions(table: Table) -> None:
    watch = table.system.plants[0].watch
    assert watch is not None
    guards = watch.native()
    assert guards is not None
    guards.drive.directions[:] = -1


def no_update(table: Table) -> None:
    names = [n for n, r in table.reactions.items() if r.kind == "update"]
    task(table, names[0])["offset"] += 10_000_000


IN_THE_TABLE: dict[str, Fault] = {
    "state of a plant": lambda table: nudge(table.system.plants[0].x),
    "wires of a plant": without_wires(vessel, ""),
    "update of a plant": no_update,
    "memory of a Python controller": lambda table: nudge(table.reactions["law"].vectors[1]),
    "wires of a Python controller": without_wires(task, "law"),
    "wires of a C controller": without_wires(task, "c"),
    "constant compute latency": longer(task, "c"),
    "constant transport latency": longer(topic, "eye"),
    "wires of a sensor": without_wires(task, "eye"),
    "held value": lambda table: nudge(table.system.ports["law"].value),
    "value of a source": lambda table: nudge(table.system.ports["set"].value),
    "guards": without_guards,
    "directions of guards": other_directions,
}


def check_found(monkeypatch: pytest.MonkeyPatch, times: list[int]) -> None:
    """The fault was planted, and it is the comparison that fails, not the engine."""
    with pytest.raises(AssertionError) as found:
        check_equal(scenario)
    monkeypatch.undo()
    assert found.traceback[-1].name == "check_equal"
    assert times


@pytest.mark.parametrize("kind", IN_THE_TABLE)
def test_a_fault_in_the_table_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []

    def planted(table: Table, flight: Any) -> None:
        copy_in(table, flight)
        IN_THE_TABLE[kind](table)  # in each stretch: in the first one most values are still 0
        times.append(table.system.ns)

    monkeypatch.setattr("rtsim.engine.compiled.engine.copy_in", planted)
    check_found(monkeypatch, times)


def one_ns_more(values: Any) -> None:
    values[np.flatnonzero(values != LOST)[0]] += 1


def nothing_lost(values: Any) -> None:
    assert (values == LOST).any()
    values[values == LOST] = 1_000_000


DRAWN: dict[str, tuple[str, Callable[[Any], None]]] = {
    "noise": ("noise/gust", nudge),
    "compute latency": ("compute/law", one_ns_more),
    "transport latency": ("law", one_ns_more),
    "lost messages": ("law", nothing_lost),
}


@pytest.mark.parametrize("kind", DRAWN)
def test_a_fault_in_what_is_drawn_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill = Draws.fill
    times: list[int] = []
    wanted, change = DRAWN[kind]

    def planted(self: Draws, count: int) -> None:
        fill(self, count)
        stream = self._stream
        transport = wanted == "law" and "law" in stream and not stream.startswith("compute/")
        if not times and (stream == wanted or transport) and self.values.size > 9:
            change(self.values)
            times.append(1)

    monkeypatch.setattr(Draws, "fill", planted)
    check_found(monkeypatch, times)


def test_a_scheduled_change_that_compiled_code_passes_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = CompiledEngine._first_interpreted
    times: list[int] = []

    def planted(self: CompiledEngine) -> int:
        system = self._system
        here, system.next_change = system.next_change, len(system.changes)
        times.append(1)
        try:
            return first(self)
        finally:
            system.next_change = here

    monkeypatch.setattr(CompiledEngine, "_first_interpreted", planted)
    check_found(monkeypatch, times)

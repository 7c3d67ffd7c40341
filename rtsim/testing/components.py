"""Conformance checks for components of rtsim and of users."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.tag import Duration
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.prepared import prepare
from rtsim.runs.simulation import simulate
from rtsim.scenario.component import Component, declared_values, readable
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import check_determinism, trace_of

NAME = "component"


def check_component(
    make: Callable[[], Component],
    *,
    beside: Callable[[Scenario], object] | None = None,
    until: Duration = 1,
    name: str = NAME,
) -> None:
    """Assert the contract of :class:`rtsim.scenario.Component`.

    Args:
        make: Function that returns a new component.
        beside: Function that adds other components, which are connected to ``name``.
        until: Duration of each run, s.
        name: Name of the checked component.

    Raises:
        AssertionError: The component violates the contract. The message describes the necessary
            change.
        RtsimError: The component itself raised this error.
    """
    checked = _Checked(make, beside, until, name)
    checked.check_description()
    checked.check_copy()
    checked.check_settable()
    checked.check_built()
    check_determinism(checked.scenario)
    checked.check_resumed()
    checked.check_reset()


@dataclass
class _Checked:
    make: Callable[[], Component]
    beside: Callable[[Scenario], object] | None
    until: Duration
    name: str

    def scenario(self) -> Scenario:
        out = Scenario(f"check of {self.name}", until=self.until)
        if self.beside is not None:
            self.beside(out)
        out.add(self.name, self.make())
        return out

    def check_description(self) -> None:
        scenario = self.scenario()
        before = _plain(f"describe() of {self.name}", scenario.component(self.name).describe())
        assert "kind" in before, f"describe() of {self.name} has no 'kind'; add it"
        again = _plain(f"describe() of {self.name}", self.make().describe())
        assert before == again, (
            f"describe() of {self.name} differs between two equal components: {before}, {again}; "
            "return declared values only, no address and no time"
        )
        scenario.build().close()
        after = scenario.component(self.name).describe()
        assert before == after, (
            f"build() changed the result of describe() of {self.name}: {before}, {after}; keep the "
            "state of a run in the objects that build() returns"
        )

    def check_copy(self) -> None:
        component = self.make()
        twin = component.copy()
        assert type(twin) is type(component), f"copy() of {self.name} is a {type(twin).__name__}"
        for one, other in zip(component.settable(), twin.settable(), strict=True):
            assert one.values is not other.values, (
                f"{self.name} and its copy() share the values of {', '.join(one.signals.names)}; "
                "keep them in a dict that is an attribute, or override copy()"
            )

    def check_settable(self) -> None:
        scenario = self.scenario()
        for values, signals, live in scenario.component(self.name).settable():
            for signal in signals:
                target = f"{self.name}.{signal.name}"
                value = declared_values(signals, values)[signal.name]
                if not isinstance(value, str):
                    scenario.set(target, value)
                system = scenario.build()
                system.close()
                assert (target in system.changeable) == live, (
                    f"{target} is settable with live={live}, and build() returned "
                    f"{'no' if live else 'a'} Changeable for it; make the two agree"
                )

    def check_built(self) -> None:
        scenario = self.scenario()
        component = scenario.component(self.name)
        one, other = scenario.build(), scenario.build()
        one.close()
        other.close()
        declared = one.ports.get(self.name)
        assert declared is not None, (
            f"build() of {self.name} returned no port; return Built(port=SignalPort(...)), without "
            "signals if the component has no outputs"
        )
        signals = readable(component, scenario.components)
        assert declared.signals.to_json() == signals.to_json(), (
            f"the port of {self.name} has {', '.join(declared.signals.names) or 'no signals'}, but "
            f"signals() has {', '.join(signals.names) or 'none'}; both must have the same signals"
        )
        if declared.value.size:
            assert not np.shares_memory(declared.value, other.ports[self.name].value), (
                f"two builds of {self.name} share the vector of their port; make a new one in "
                "build(), such as signals.initial()"
            )

    def check_resumed(self) -> None:
        whole = trace_of(self.scenario())
        half_ns = self.scenario().until_ns // 2
        first = MemoryRecorder()
        stopped = simulate(self.scenario(), recorder=first, stop_ns=half_ns)
        state = _plain(f"save() of {self.name} and its tasks", stopped.system.save())
        start = Checkpoint(stopped.system.ns, first.recording().header, state)
        rest = MemoryRecorder()
        simulate(self.scenario(), recorder=rest, start=start)
        _check_joined(self.name, whole, first.recording(), rest.recording())

    def check_reset(self) -> None:
        if not self.make().resettable():
            return
        self._check_restored()
        prepared = prepare(self.scenario())
        for seed in (1, 2, 1):
            recorder = MemoryRecorder()
            wanted = simulate(self.scenario(), seed=seed, recorder=recorder).recording().digest()
            assert prepared.run(seed=seed).recording().digest() == wanted, (
                f"{self.name} is resettable(), but a run after a reset differs from a new run; "
                "save() and restore() of what build() returns must include all memory of a run"
            )

    def _check_restored(self) -> None:
        system = self.scenario().build()
        try:
            first = system.save()
            for target, one in system.changeable.items():
                vector, before = one.vector, one.vector.copy()
                vector += 1.0
                system.restore(first)
                assert np.array_equal(vector, before), (
                    f"{self.name} is resettable(), but restore() does not put {target} back; "
                    "include the value in save() and restore() of the component's task"
                )
        finally:
            system.close()


def _check_joined(name: str, whole: Recording, first: Recording, rest: Recording) -> None:
    for track, of_whole in whole.tracks.items():
        if not of_whole.spec.deterministic:
            continue
        joined = np.concatenate([first.tracks[track].words, rest.tracks[track].words])
        assert np.array_equal(joined, of_whole.words), (
            f"a run with {name} that continues from a saved state differs from the whole run in "
            f"{track}; save() and restore() of its tasks must include all their memory"
        )


def _plain(what: str, value: Any) -> Any:
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise ScenarioError(
            f"{what} is not plain data: {error}; use numbers, text, lists and dicts"
        ) from None

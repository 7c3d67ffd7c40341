"""The suite that every kind of component passes, one of rtsim's or one of your own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.tag import Duration
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.record.memory_recorder import MemoryRecorder
from rtsim.record.reading import Recording
from rtsim.runs.simulation import simulate
from rtsim.scenario.component import Component, declared_values, readable
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import check_determinism, trace_of

NAME = "component"
"""The name under which a component is checked."""


def check_component(
    make: Callable[[], Component],
    *,
    beside: Callable[[Scenario], object] | None = None,
    until: Duration = 1,
    name: str = NAME,
) -> None:
    """Assert the contract of :class:`rtsim.scenario.Component` for what ``make`` returns.

    ``make`` is called several times and returns a new component each time.  ``beside`` adds to a
    scenario what the component's inputs are wired to, and what is wired to it, under ``name``.  The
    runs last ``until`` s.  Raises AssertionError, with what to change; an error of the component
    itself (:class:`rtsim.core.errors.RtsimError`) comes as it is.
    """
    checked = _Checked(make, beside, until, name)
    checked.check_description()
    checked.check_copy()
    checked.check_settable()
    checked.check_built()
    check_determinism(checked.scenario)
    checked.check_resumed()


@dataclass
class _Checked:
    """A component in a scenario of its own."""

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
        """Plain data, the same for two that were made alike, and untouched by a build."""
        scenario = self.scenario()
        before = _plain(f"describe() of {self.name}", scenario.component(self.name).describe())
        assert "kind" in before, f"describe() of {self.name} has no 'kind'; add it"
        again = _plain(f"describe() of {self.name}", self.make().describe())
        assert before == again, (
            f"describe() of {self.name} differs between two that were made alike: {before}, "
            f"{again}; leave out what is not declared, such as an address or a time"
        )
        scenario.build().close()
        after = scenario.component(self.name).describe()
        assert before == after, (
            f"build() changed what describe() of {self.name} says: {before}, {after}; keep what "
            "belongs to one run in what build() returns"
        )

    def check_copy(self) -> None:
        """Declared values of a copy are its own."""
        component = self.make()
        twin = component.copy()
        assert type(twin) is type(component), f"copy() of {self.name} is a {type(twin).__name__}"
        for one, other in zip(component.settable(), twin.settable(), strict=True):
            assert one.values is not other.values, (
                f"{self.name} and its copy() share the values of {', '.join(one.signals.names)}; "
                "keep them in a dict that is an attribute, or override copy()"
            )

    def check_settable(self) -> None:
        """Each value can be set; a live one can change during a run, any other cannot."""
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
                    f"{'no' if live else 'a'} Changeable for it; make them agree"
                )

    def check_built(self) -> None:
        """Its port has the signals that it declares; two builds share no vector."""
        scenario = self.scenario()
        component = scenario.component(self.name)
        one, other = scenario.build(), scenario.build()
        one.close()
        other.close()
        declared = one.ports.get(self.name)
        assert declared is not None, (
            f"build() of {self.name} returned no port; return Built(port=SignalPort(...)), of no "
            "signals where nothing can be read of it"
        )
        signals = readable(component, scenario.components)
        assert declared.signals.to_json() == signals.to_json(), (
            f"the port of {self.name} has {', '.join(declared.signals.names) or 'no signals'}, and "
            f"signals() has {', '.join(signals.names) or 'none'}; return the same from both"
        )
        if declared.value.size:
            assert not np.shares_memory(declared.value, other.ports[self.name].value), (
                f"two builds of {self.name} share the vector of their port; make a new one in "
                "build(), such as signals.initial()"
            )

    def check_resumed(self) -> None:
        """A run that goes on from a saved state does as the whole run did."""
        whole = trace_of(self.scenario())
        half_ns = self.scenario().until_ns // 2
        first = MemoryRecorder()
        stopped = simulate(self.scenario(), recorder=first, stop_ns=half_ns)
        state = _plain(f"save() of {self.name} and its tasks", stopped.system.save())
        start = Checkpoint(stopped.system.ns, first.recording().header, state)
        rest = MemoryRecorder()
        simulate(self.scenario(), recorder=rest, start=start)
        _check_joined(self.name, whole, first.recording(), rest.recording())


def _check_joined(name: str, whole: Recording, first: Recording, rest: Recording) -> None:
    for track, of_whole in whole.tracks.items():
        if not of_whole.spec.deterministic:
            continue
        joined = np.concatenate([first.tracks[track].words, rest.tracks[track].words])
        assert np.array_equal(joined, of_whole.words), (
            f"a run with {name} that goes on from a saved state is not the whole run: {track} "
            "differs; save() and restore() of its tasks have to keep all that they remember"
        )


def _plain(what: str, value: Any) -> Any:
    """``value`` as it comes out of JSON."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError) as error:
        raise ScenarioError(
            f"{what} is no plain data: {error}; use numbers, text, lists and dicts"
        ) from None

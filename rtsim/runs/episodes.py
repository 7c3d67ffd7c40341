"""An environment of Gymnasium whose episodes are runs of a scenario (docs/stepping.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.core.extras import needs
from rtsim.core.signals import Signal
from rtsim.core.tag import Duration, declared_ns
from rtsim.engine.compiled.eligibility import AUTO
from rtsim.runs.stepping import Simulation
from rtsim.scenario.handles import SignalName
from rtsim.scenario.scenario import Scenario

with needs("gym", "an environment of Gymnasium"):
    import gymnasium
    from gymnasium.spaces import Box

Array = NDArray[np.float64]
Reward = Callable[[Simulation], float]
Initial = Callable[[np.random.Generator], Mapping[SignalName, object]]


def environment(
    scenario: Scenario,
    *,
    observe: Sequence[SignalName],
    act: Sequence[SignalName],
    step: Duration = 0.1,
    reward: Reward,
    terminated: Callable[[Simulation], bool] | None = None,
    initial: Initial | None = None,
    record: bool = False,
    engine: str = AUTO,
) -> Environment:
    """Return ``scenario`` as an environment of Gymnasium; its arguments are those of the class."""
    return Environment(
        scenario, observe=observe, act=act, step=step, reward=reward, terminated=terminated,
        initial=initial, record=record, engine=engine,
    )  # fmt: skip


class Environment(gymnasium.Env[Array, Array]):
    """A scenario as an environment: an episode is a run, and an action holds for one step.

    ``observe``: the signals of an observation, (n,) in their order.  ``act``: the sources, external
    inputs and parameters that an action (m,) sets; each needs bounds, ``low`` and ``high``.
    ``step``: simulated time of one step, s.  ``reward``: a function of the :class:`Simulation`
    after a step.  ``terminated``: whether the episode is over, besides a terminal guard of a model.
    ``initial``: the values that an episode begins with, drawn with the generator of the
    environment.  ``record``: keep the rows of each episode, for ``env.simulation.result()``.

    The end of the run truncates an episode.  ``reset(seed=...)`` also sets the seed of the random
    streams of the run; ``reset(options={"cart.x": 1.0})`` sets values for one episode.

    Raises :class:`UnknownName` for an unknown signal, and :class:`ScenarioError` for an action
    without bounds or that cannot be assigned, and for a wrong step.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - declared so by Gymnasium

    def __init__(
        self,
        scenario: Scenario,
        *,
        observe: Sequence[SignalName],
        act: Sequence[SignalName],
        step: Duration = 0.1,
        reward: Reward,
        terminated: Callable[[Simulation], bool] | None = None,
        initial: Initial | None = None,
        record: bool = False,
        engine: str = AUTO,
    ) -> None:
        if declared_ns(step, "step") <= 0:
            raise ScenarioError(f"step is {step!r} s; give a step > 0 s")
        self._scenario, self._step = scenario.copy(), step
        self._reward, self._terminated, self._initial = reward, terminated, initial
        self._record, self._engine = record, engine
        self.simulation = self._begun(0, {})
        """The run of the present episode."""
        self.observed = _named("observe", observe)
        """Names of the signals of an observation."""
        self.acted = _named("act", act)
        """Names of the values that an action sets."""
        signals = {name: self.simulation.signal(name) for name in (*self.observed, *self.acted)}
        self._sizes = [signals[name].size for name in self.acted]
        for name in self.acted:
            _check_bounds(name, signals[name])
            self.simulation[name] = self.simulation[name]
        size = sum(signals[name].size for name in self.observed)
        # A range bounds the initial value of a state, not what the run makes of it.
        self.observation_space = Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = _box([signals[name] for name in self.acted])

    def _begun(self, seed: int, values: Mapping[SignalName, object]) -> Simulation:
        scenario = self._scenario.copy() if values else self._scenario
        for name, value in values.items():
            scenario.set(name, value)
        return Simulation(scenario, seed=seed, record=self._record, engine=self._engine)

    def reset(
        self, *, seed: int | None = None, options: Mapping[Any, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begin an episode; return the first observation (n,) and the simulated time.

        ``options``: values that this episode begins with, by name.
        """
        super().reset(seed=seed)
        self.simulation.close()
        drawn = {} if self._initial is None else self._initial(self.np_random)
        run_seed = int(self.np_random.integers(2**31))
        values: dict[Any, object] = {**drawn, **(options or {})}
        self.simulation = self._begun(run_seed, values)
        return self._observation(), self._info()

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Set ``action`` (m,), and advance by one step.

        Returns the observation (n,), the reward, whether the episode has terminated, whether its
        time is over, and the simulated time.
        """
        run = self.simulation
        given = np.asarray(action, dtype=np.float64).ravel()
        if given.size != sum(self._sizes):
            raise ScenarioError(
                f"an action has {sum(self._sizes)} values ({', '.join(self.acted)}), but got "
                f"{given.size}"
            )
        for name, values in zip(
            self.acted, np.split(given, np.cumsum(self._sizes)[:-1]), strict=True
        ):
            run[name] = values
        late = not run.advance(self._step) and not run.ended_by
        over = bool(run.ended_by) or (self._terminated is not None and self._terminated(run))
        return self._observation(), float(self._reward(run)), bool(over), late, self._info()

    def close(self) -> None:
        """End the present episode."""
        self.simulation.close()

    def _observation(self) -> Array:
        return np.concatenate([np.atleast_1d(self.simulation[name]) for name in self.observed])

    def _info(self) -> dict[str, Any]:
        return {"time": self.simulation.time}


def _named(what: str, names: Sequence[SignalName]) -> tuple[str, ...]:
    """Return names of signals as texts."""
    if isinstance(names, str) or not names:
        raise ScenarioError(f"{what} is {names!r}; give a list of signals: {what}=[cart.x]")
    return tuple(str(name) for name in names)


def _check_bounds(name: str, signal: Signal) -> None:
    """Raise :class:`ScenarioError` unless a value that actions set has finite bounds."""
    if not np.isfinite([signal.low, signal.high]).all():
        owner, _, short = name.partition(".")
        raise ScenarioError(
            f"{name} has no bounds, so nothing says which actions are possible; declare them in "
            f"{owner}: Signal({short!r}, {signal.unit!r}, low=-1, high=1), or "
            f"parameter({signal.unit!r}, low=-1, high=1) in a class"
        )


def _box(signals: Sequence[Signal]) -> Box[np.float64]:
    """Return the space of vectors of ``signals``, with their bounds."""
    low = np.concatenate([np.full(signal.size, signal.low) for signal in signals])
    high = np.concatenate([np.full(signal.size, signal.high) for signal in signals])
    return Box(low, high, dtype=np.float64)

"""A Gymnasium environment in which each episode is a run of a scenario (docs/stepping.md)."""

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
    """Return ``scenario`` as a Gymnasium environment."""
    return Environment(
        scenario, observe=observe, act=act, step=step, reward=reward, terminated=terminated,
        initial=initial, record=record, engine=engine,
    )  # fmt: skip


class Environment(gymnasium.Env[Array, Array]):
    """Gymnasium environment of a scenario: each episode is a run, and each action lasts one step.

    The end of the run truncates an episode.  ``reset(seed=...)`` also seeds the random streams of
    the run, and ``reset(options={"cart.x": 1.0})`` sets values for one episode.

    Args:
        scenario: The scenario.
        observe: Signals of an observation, shape (n,).
        act: Sources, external inputs and parameters that an action sets, shape (m,). Each of these
            values needs the bounds ``low`` and ``high``.
        step: Simulated time of one step, s.
        reward: Function of the :class:`Simulation` that returns the reward after a step.
        terminated: Function of the :class:`Simulation` that returns whether the episode is over. A
            terminal guard of a model also terminates an episode.
        initial: Function that draws initial values with a random generator.
        record: True to keep the rows of an episode for ``env.simulation.result()``.
        engine: As in ``simulate``.

    Raises:
        UnknownName: A signal is unknown.
        ScenarioError: The step is invalid, or an action has no limits or cannot be set.
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
        """Names of the observed signals."""
        self.acted = _named("act", act)
        """Names of the values that an action sets."""
        signals = {name: self.simulation.signal(name) for name in (*self.observed, *self.acted)}
        self._sizes = [signals[name].size for name in self.acted]
        for name in self.acted:
            _check_bounds(name, signals[name])
            self.simulation[name] = self.simulation[name]
        size = sum(signals[name].size for name in self.observed)
        # The range of a state applies to its initial value only, so observations are unbounded.
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

        ``options`` contains initial values for this episode, by name.
        """
        super().reset(seed=seed)
        self.simulation.close()
        drawn = {} if self._initial is None else self._initial(self.np_random)
        run_seed = int(self.np_random.integers(2**31))
        values: dict[Any, object] = {**drawn, **(options or {})}
        self.simulation = self._begun(run_seed, values)
        return self._observation(), self._info()

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Apply the action ``action`` (m,) and advance by one step.

        The result contains the observation (n,), the reward, whether the episode has terminated or
        was truncated, and the simulated time.
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
        self.simulation.close()

    def _observation(self) -> Array:
        return np.concatenate([np.atleast_1d(self.simulation[name]) for name in self.observed])

    def _info(self) -> dict[str, Any]:
        return {"time": self.simulation.time}


def _named(what: str, names: Sequence[SignalName]) -> tuple[str, ...]:
    if isinstance(names, str) or not names:
        raise ScenarioError(f"{what} is {names!r}; give a list of signals: {what}=[cart.x]")
    return tuple(str(name) for name in names)


def _check_bounds(name: str, signal: Signal) -> None:
    if not np.isfinite([signal.low, signal.high]).all():
        owner, _, short = name.partition(".")
        raise ScenarioError(
            f"{name} has no bounds, so the range of its actions is unknown; declare them in "
            f"{owner}: Signal({short!r}, {signal.unit!r}, low=-1, high=1), or "
            f"parameter({signal.unit!r}, low=-1, high=1) in a class"
        )


def _box(signals: Sequence[Signal]) -> Box[np.float64]:
    low = np.concatenate([np.full(signal.size, signal.low) for signal in signals])
    high = np.concatenate([np.full(signal.size, signal.high) for signal in signals])
    return Box(low, high, dtype=np.float64)

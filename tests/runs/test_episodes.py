"""A scenario as an environment of Gymnasium."""

from __future__ import annotations

import sys
import warnings
from typing import Any, Self

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import rtsim as rt
from rtsim import runs
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.runs import environment, simulate


class Pole(rt.Plant):
    """A pole that falls over, on a hand that pushes it back."""

    angle = rt.state("rad", 0.05)
    rate = rt.state("rad/s")
    push = rt.input("rad/s2")

    def derivative(self, d: Self) -> None:
        d.angle = self.rate
        d.rate = 9.81 * self.angle + self.push

    @rt.crossing(terminal=True)
    def fallen(self) -> float:
        return self.angle * self.angle - 0.25


def pole() -> rt.Scenario:
    made = rt.Scenario("pole", until=2)
    pole = made.plant(Pole(), step=0.01)
    hand = made.source("hand", rt.Signals(rt.Signal("push", "rad/s2", low=-10, high=10)))
    gust = made.noise("gust", rt.Signals("push [rad/s2]"), deviation=0.2, period=0.1)
    both = made.controller(
        "both",
        rt.PythonController(
            lambda t, u, s, p, y: y.__setitem__(0, u[0] + u[1]),  # noqa: ARG005
            rt.Signals("hand [rad/s2]", "gust [rad/s2]"), rt.Signals("push [rad/s2]"),
        ),
        period=0.01,
    )  # fmt: skip
    made.connect(hand.push, both.hand)
    made.connect(gust.push, both.gust)
    made.connect(both.push, pole.push)
    return made


def made(**how: Any) -> gymnasium.Env[Any, Any]:
    arguments: dict[str, Any] = {
        "observe": ["pole.angle", "pole.rate"], "act": ["hand.push"], "step": 0.05,
        "reward": lambda s: 1.0 - s["pole.angle"] ** 2,
    }  # fmt: skip
    return environment(pole(), **{**arguments, **how})


def test_gymnasium_accepts_the_environment() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(Box|action|render).*")
        check_env(made(), skip_render_check=True)


def balance(env: gymnasium.Env[Any, Any], seed: int | None = None) -> tuple[list[Any], bool, bool]:
    """The observations of an episode with a stabilising controller, and how it ended."""
    seen, over, late = [env.reset(seed=seed)[0]], False, False
    while not (over or late):
        found, _, over, late, _ = env.step(np.array([-30 * seen[-1][0] - 8 * seen[-1][1]]))
        seen.append(found)
    return seen, over, late


def test_an_episode_ends_at_a_terminal_guard_or_with_the_run() -> None:
    env = made()
    seen, over, late = balance(env, seed=1)
    assert (over, late) == (False, True)
    assert len(seen) == 2 / 0.05 + 1
    env.reset(seed=1)
    ends: list[bool] = []
    while not any(ends[-1:]):
        _, reward, over, late, info = env.step(np.array([10.0]))
        ends.append(over or late)
    assert over
    assert not late
    assert info["time"] < 1
    assert reward == pytest.approx(0.75, abs=1e-3)
    early = made(terminated=lambda s: s["pole.angle"] > 0.1)
    early.reset(seed=1)
    while not early.step(np.array([10.0]))[2]:
        pass


def test_the_seed_gives_the_streams_of_the_run() -> None:
    first, again, other = (balance(made(), seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first[5], other[5])
    env = made()
    one, two = (balance(env, seed)[0] for seed in (1, None))
    assert not np.array_equal(one[5], two[5]), "each episode has other random values"


def test_an_episode_is_a_run_with_these_actions() -> None:
    env = made(record=True)
    env.reset(seed=1)
    for k in range(4):
        env.step(np.array([k - 2.0]))
    run = env.unwrapped.simulation  # type: ignore[attr-defined]
    scenario = pole()
    for k in range(4):
        scenario.at(f"{5 * k}/100", "hand.push", k - 2.0)
    seed = run.result().recording().header["seed"]
    whole = simulate(scenario, seed=seed, until=0.2)
    assert run.result().recording().digest() == whole.recording().digest()


def test_values_of_an_episode_are_drawn_and_given() -> None:
    env = made(initial=lambda rng: {"pole.angle": rng.uniform(0.1, 0.2)})
    first, second = env.reset(seed=1)[0][0], env.reset()[0][0]
    assert 0.1 <= first <= 0.2
    assert 0.1 <= second <= 0.2
    assert first != second
    assert env.reset(options={"pole.angle": -0.01})[0][0] == -0.01


def test_spaces_have_the_bounds_of_the_signals() -> None:
    env = made()
    assert isinstance(env.action_space, gymnasium.spaces.Box)
    assert env.action_space.low.tolist() == [-10]
    assert env.action_space.high.tolist() == [10]
    assert env.observation_space == gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    env.reset()
    with pytest.raises(ScenarioError, match=r"hand.push.*outside its range"):
        env.step(np.array([11.0]))
    with pytest.raises(ScenarioError, match="an action has 1 values"):
        env.step(np.array([1.0, 2.0]))


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        ({"act": ["hand.pull"]}, UnknownName, "did you mean push"),
        ({"observe": ["pole.angel"]}, UnknownName, "did you mean angle"),
        ({"act": ["gust.push"]}, ScenarioError, "no bounds.*low=-1"),
        ({"act": "hand.push"}, ScenarioError, "give a list"),
        ({"observe": []}, ScenarioError, "give a list"),
        ({"step": 0}, ScenarioError, "step > 0"),
        ({"initial": lambda _: {"pole.angel": 1}}, UnknownName, "did you mean angle"),
    ],
)
def test_a_mistake_is_an_error(how: dict[str, Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        made(**how).reset()


def test_without_gymnasium_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "rtsim.runs.episodes")
    with pytest.raises(
        ScenarioError, match=r"Gymnasium needs the package gymnasium.*pip install 'rtsim\[gym\]'"
    ):
        _ = runs.environment

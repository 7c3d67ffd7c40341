"""Names of classes and signals, helpers that methods share, and when a class is lowered again."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pytest

import rtsim as rt
from rtsim.core.errors import ModelError, UnknownName
from rtsim.core.tag import Tag
from rtsim.equations.model import bind


class Agent(rt.Controller, name="walker"):
    """An input, an output and a memory whose signals have one name."""

    other_x = rt.input("m", name="x")
    x = rt.output("m", low=-5.0, high=5.0)
    at_x = rt.memory("m", 1.0, name="x")

    def step(self) -> None:
        self.at_x += 0.5 * (self.other_x - self.at_x)
        self.x = self.at_x


def test_signals_of_different_roles_can_have_one_name() -> None:
    made = Agent(at_x=2.0).controller()
    assert made.inputs.names == made.outputs.names == made.memory.names == ("x",)
    assert made.outputs["x"].high == 5.0
    made.send(Tag(0), np.array([4.0]))
    answer = made.receive(Tag(0), 0.0)
    assert answer is not None
    assert answer.tolist() == [3.0]


def test_a_handle_knows_fields_whose_signals_have_other_names() -> None:
    loop = rt.Scenario("walk", until=1)
    one = loop.controller("one", Agent(), period=0.5)
    other = loop.controller("other", Agent(at_x=3.0), period=0.5)
    loop.connect(one.x, other.other_x)
    loop.connect(other.x, one.other_x)
    assert str(one.other_x) == "one.x"
    assert "other_x" in dir(one)
    loop.plot("paths", one.x, other.x)
    loop.plot("path", one.x, over=other.x)
    assert loop.describe()["parts"]["other"]["inputs"] == {"x": "one.x"}
    assert loop.presentation.views[1].over == "other.x"
    loop.build()


def test_two_fields_of_a_role_cannot_have_one_name() -> None:
    class Twice(rt.Controller):
        a = rt.memory()
        b = rt.memory(name="a")

        def step(self) -> None:
            self.a = self.b

    with pytest.raises(ModelError, match=r"Twice: .*\ba\b"):
        Twice().controller()


def test_a_class_can_name_its_model() -> None:
    class Wagon(rt.Plant, name="cart"):
        x = rt.state()
        turn = rt.parameter("rad", 7.0, kind="angle")

        def derivative(self, d: Self) -> None:
            d.x = 1.0

    class Longer(Wagon):
        pass

    assert Wagon.model().name == "cart"
    assert Longer.model().name == "longer"
    assert Wagon.model().parameters["turn"].kind == "angle"
    loop = rt.Scenario("loop", until=1)
    assert str(loop.plant(Wagon(), step=0.1)) == "cart"
    assert str(loop.controller(Agent(), period=0.1)) == "walker"


class Lift(rt.Plant):
    """Guards that return elements of what one method returns."""

    height = rt.state("m", 1.0)
    speed = rt.state("m/s", -1.0)
    landed = rt.memory()

    def derivative(self, d: Self) -> None:
        d.height = self.speed
        d.speed = 0.0

    def heights(self) -> tuple[float, float]:
        return self.height, self.height - 0.5

    @rt.falling
    def floor(self) -> float:
        return self.heights()[0]

    @floor.reset
    def land(self) -> None:
        self.landed = 1.0
        self.speed = 0.0

    @rt.falling
    def half(self) -> float:
        """The middle of the way."""
        return self.heights()[1]

    @rt.falling
    def other(self) -> float:
        return 2.0 * self.heights()[1]


@pytest.mark.parametrize("compile", [True, False])
def test_guards_share_the_call_of_a_method(compile: bool) -> None:
    model = Lift.model()
    assert model.guard is not None
    assert [n[:2] for n in model.guard.__code__.co_varnames].count("_r") == 1
    found = np.zeros(3)
    bound = bind(model, compile=compile)
    bound.guard.call(0.0, np.array([0.75, -1.0]), np.zeros(1), np.zeros(0), np.zeros(0), found)
    assert found.tolist() == [0.75, 0.25, 0.5]
    loop = rt.Scenario("lift", until=2)
    loop.plant(Lift(), step=0.1)
    run = rt.simulate(loop, compile=compile)
    assert run["lift.landed"][-1] == 1.0
    assert abs(run["lift.height"][-1]) < 1e-8


class Heated(rt.Plant):
    """A helper that the derivative and the outputs call, and one that only outputs can call."""

    temperature = rt.state("K", 300.0)
    power = rt.input("W")
    flow = rt.output("W")

    def loss(self) -> float:
        return 2.0 * (self.temperature - 290.0)

    def show(self) -> float:
        self.flow = self.loss()
        return self.flow

    def derivative(self, d: Self) -> None:
        d.temperature = self.power - self.loss()

    def outputs(self) -> None:
        self.show()


def test_methods_share_a_helper_that_has_only_the_arguments_that_it_uses() -> None:
    model = Heated.model()
    assert model.derivative is not None
    assert model.output is not None

    def helpers(function: object) -> list[object]:
        return [cell.cell_contents for cell in getattr(function, "__closure__", ()) or ()]

    (loss,) = helpers(model.derivative)
    (show,) = helpers(model.output)
    assert helpers(show.py_func) == [loss]  # type: ignore[attr-defined]
    assert loss.py_func.__code__.co_varnames == ("_x",)  # type: ignore[attr-defined]


def test_a_helper_that_assigns_outputs_is_refused_in_the_derivative() -> None:
    class Wrong(Heated):
        def derivative(self, d: Self) -> None:
            d.temperature = self.power - self.show()

    with pytest.raises(ModelError, match="flow is assigned, but derivative only reads"):
        Wrong.model()


def twice(body: Doubled) -> float:
    return 2.0 * body.x


def thrice(body: Doubled) -> float:
    return 3.0 * body.x


@rt.compiled
def height(value: float) -> float:
    return value + 1.0


class Named(rt.Plant):
    x = rt.state("m", 1.0)

    def height(self) -> float:
        return height(self.x)

    def derivative(self, d: Self) -> None:
        d.x = self.height()


def test_a_method_can_call_a_function_of_its_own_name() -> None:
    dx, none = np.zeros(1), np.zeros(0)
    bind(Named.model(), compile=False).derivative.call(0.0, np.ones(1), none, none, none, dx)
    assert dx[0] == 2.0


class Doubled(rt.Plant):
    x = rt.state("m", 1.0)

    def derivative(self, d: Self) -> None:
        d.x = twice(self)


def test_a_class_is_lowered_again_only_if_something_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = Doubled.model()
    assert Doubled.model() is first
    monkeypatch.setitem(globals(), "twice", thrice)
    changed = Doubled.model()
    assert changed is not first
    dx, none = np.zeros(1), np.zeros(0)
    bind(changed, compile=False).derivative.call(0.0, np.ones(1), none, none, none, dx)
    assert dx[0] == 3.0
    monkeypatch.undo()
    monkeypatch.setattr(Doubled, "assumptions", ("x grows",))
    assert Doubled.model().assumptions == ("x grows",)


def test_the_handle_of_a_component_is_had_again_from_the_scenario() -> None:
    class Tug(rt.Plant):
        x = rt.state("m")
        pull = rt.input("N")
        last = rt.memory("N", name="pull_before")

        def derivative(self, d: Any) -> None:
            d.x = self.pull

    loop = rt.Scenario("s", until=1)
    loop.plant(Tug(), step=0.1)
    for scenario in (loop, loop.copy()):
        again = scenario["tug"]
        assert again.pull == "tug.pull"
        assert again.last == "tug.pull_before"
        assert "tug" in scenario
        assert list(scenario) == ["tug"]
    with pytest.raises(UnknownName, match=r"unknown component 'tog' .* did you mean tug"):
        loop["tog"]


def test_handles_name_what_is_sampled_and_what_is_waited_for() -> None:
    class Tug(rt.Plant):
        x = rt.state("m")
        pull = rt.input("N", optional=True)

        def derivative(self, d: Any) -> None:
            d.x = 1.0

    class Winch(rt.Controller):
        length = rt.input("m")
        pull = rt.output("N")

        def step(self) -> None:
            self.pull = self.length

    loop = rt.Scenario("s", until=1)
    tug = loop.plant(Tug(), step=0.1)
    seen = loop.sensor("seen", {"x": tug.x}, period=0.2)
    winch = loop.controller(Winch(), on=seen, inputs={"length": seen.x})
    loop.connect(winch.pull, tug.pull)
    assert rt.simulate(loop)["winch.pull"][-1] == pytest.approx(1.0)
    for wrong in (
        lambda: loop.sensor("all", {"x": tug}, period=0.2),  # type: ignore[dict-item]
        lambda: loop.controller("two", Winch(), on=[seen], inputs={"length": seen}),  # type: ignore[dict-item]
    ):
        with pytest.raises(rt.ScenarioError, match=r"names\.py:\d+: .*\n.* is the component"):
            wrong()
    with pytest.raises(rt.ScenarioError, match=r"x of sensor none is 2\.0; give 'component"):
        loop.sensor("none", {"x": 2.0}, period=0.2)


def test_an_unknown_option_names_the_known_ones() -> None:
    class Tug(rt.Plant):
        x = rt.state("m")

        def derivative(self, d: Any) -> None:
            d.x = 1.0

    loop = rt.Scenario("s", until=1)
    with pytest.raises(rt.ScenarioError, match=r"names\.py:\d+: [\s\S]*'rtol' in plant\(\).*rtol="):
        loop.plant(Tug(), step=0.1, rtol=1e-6)  # type: ignore[call-overload]
    with pytest.raises(rt.ScenarioError, match=r"'sovler' in plant\(\); did you mean solver"):
        loop.plant(Tug(), step=0.1, sovler="rk4")  # type: ignore[call-overload]
    assert "tug" not in loop


class Hold(rt.Controller):
    """The signal of its memory has the name of the output and of the input."""

    x = rt.input("m", 1)
    force = rt.output("N")
    last = rt.memory("m", name="x")
    bias = rt.memory("N", name="force")

    def step(self) -> None:
        self.last = self.x
        self.force = self.bias


def test_an_output_of_a_controller_has_its_given_value_until_a_message_arrives() -> None:
    class Mass(rt.Plant):
        x = rt.state("m")
        force = rt.input("N")

        def derivative(self, d: Self) -> None:
            d.x = self.force

    loop = rt.Scenario("hold", until=0.4)
    mass = loop.plant("mass", Mass(), step=0.1)
    hold = loop.controller(Hold(force=2.0, bias=-1.0), period=0.1, transport=0.2)
    loop.connect(mass.x, hold.x)
    loop.connect(hold.force, mass.force)
    run = rt.simulate(loop, compile=False)
    assert run[mass.force].tolist() == [2.0, 2.0, -1.0, -1.0, -1.0]


def test_values_of_signals_of_one_name_stay_apart() -> None:
    made = Hold(last=5.0, force=2.0).controller()
    assert made.inputs.initial().tolist() == [1.0]
    assert made.outputs.initial().tolist() == [2.0]
    assert dict(zip(made.memory.names, made.memory.initial().tolist(), strict=True)) == {
        "x": 5.0, "force": 0.0,
    }  # fmt: skip


def test_an_output_of_a_plant_has_no_initial_value() -> None:
    class Lamp(rt.Plant):
        x = rt.state("m")
        light = rt.output("lx")

        def derivative(self, d: Self) -> None:
            d.x = 0.0

        def outputs(self) -> None:
            self.light = self.x

    with pytest.raises(ModelError, match=r"Lamp\.light is an output of a plant and is computed"):
        Lamp(light=1.0)

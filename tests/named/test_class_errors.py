"""Mistakes in classes of plants and controllers: a message has the line, the name, the remedy."""

# ruff: noqa: ARG002
# mypy: disable-error-code="attr-defined, override, operator"

from __future__ import annotations

import functools
import linecache
from pathlib import Path
from typing import Any

import pytest

import rtsim as rt
from rtsim.core.errors import ModelError, ScenarioError
from rtsim.equations.model import bind


class Base(rt.Plant):
    x = rt.state("m", 1)
    velocity = rt.state("m/s", shape=(3,))
    force = rt.input("N")
    gain = rt.parameter("1", 2)
    sum = rt.memory()
    phase = rt.mode("up", "down")
    seen = rt.output("m")

    def derivative(self, d: Any) -> None:
        d.x = 0.0

    def outputs(self) -> None:
        self.seen = self.x


def _free(body: Base) -> float:
    return body.gain


def _refused(cls: type[rt.Plant]) -> str:
    with pytest.raises(ModelError) as caught:
        cls.model()
    message = str(caught.value)
    file, line, _ = message.split(":", 2)
    assert file == __file__
    assert int(line) > 1
    return message


def test_a_misspelt_field_names_its_neighbour() -> None:
    class A(Base):
        def derivative(self, d: Any) -> None:
            d.x = self.fource

    assert "unknown field 'fource' in A; did you mean force" in _refused(A)


def test_the_message_has_the_line_of_the_mistake() -> None:
    class A(Base):
        def derivative(self, d: Any) -> None:
            d.x = 0.0
            d.velocity[0] = self.no_such

    line = A.derivative.__code__.co_firstlineno + 2
    assert _refused(A).startswith(f"{__file__}:{line}: ")


def test_only_a_state_has_a_derivative() -> None:
    class A(Base):
        def derivative(self, d: Any) -> None:
            d.force = 1.0

    assert "d.force has no meaning: force is an input, and only a state" in _refused(A)


def test_an_unknown_derivative_names_the_states() -> None:
    class A(Base):
        def derivative(self, d: Any) -> None:
            d.velocty = 1.0

    assert "unknown state 'velocty' in A; did you mean velocity" in _refused(A)


def test_what_a_method_only_reads_is_not_assigned() -> None:
    class A(Base):
        def derivative(self, d: Any) -> None:
            self.x = 1.0

    class B(Base):
        def derivative(self, d: Any) -> None:
            self.velocity[0] = 1.0

    class C(Base):
        def outputs(self) -> None:
            self.gain += 1.0

    assert "self.x is assigned, but derivative only reads a state" in _refused(A)
    assert "d.x = ..." in _refused(A)
    assert "self.velocity is assigned" in _refused(B)
    assert "self.gain is assigned, but outputs only reads a parameter" in _refused(C)
    assert "it may assign seen" in _refused(C)


def test_an_attribute_that_is_no_field_is_not_assigned() -> None:
    class A(Base):
        def derivative(self, d: Any) -> None:
            self.log = [1.0]

    message = _refused(A)
    assert "unknown field 'log' in A" in message
    assert "rtsim.memory()" in message


def test_an_output_is_not_read_by_the_derivative() -> None:
    class A(Base):
        def derivative(self, d: Any) -> None:
            d.x = self.seen

    assert "self.seen is an output, which derivative cannot read" in _refused(A)


def test_a_returned_list_is_explained() -> None:
    class A(Base):
        def derivative(self, d: Any) -> Any:
            return [self.x, 0.0]

    assert "assign d.NAME for each state instead" in _refused(A)


def test_an_index_outside_a_vector() -> None:
    class A(Base):
        def derivative(self, d: Any) -> None:
            d.velocity[3] = 1.0

    class B(Base):
        def derivative(self, d: Any) -> None:
            d.velocity = 1.0, 2.0

    class C(Base):
        def derivative(self, d: Any) -> None:
            d.x[0] = 1.0

    assert "velocity has the shape (3,)" in _refused(A)
    assert "2 values are assigned" in _refused(B)
    assert "x is one number" in _refused(C)


def test_a_mode_that_does_not_exist() -> None:
    class A(Base):
        def outputs(self) -> None:
            self.seen = 1.0 if self.phase == "dwon" else 0.0

    assert "unknown mode 'dwon' in self.phase; did you mean down" in _refused(A)


def test_uses_of_self_without_a_meaning() -> None:
    class A(Base):
        def derivative(self, d: Any) -> None:
            other = self
            d.x = other.x

    class B(Base):
        def derivative(self, d: Any) -> None:
            d.x = self.t
            self.t = 1.0

    class C(Base):
        def derivative(self) -> None:
            pass

    class D(Base):
        def derivative(self, d: Any) -> None:
            d.x = _free(body=self)

    class E(Base):
        def pull(self) -> float:
            return self.pull()

        def derivative(self, d: Any) -> None:
            d.x = self.pull()

    assert "self alone has no value here" in _refused(A)
    assert "self.t is the time" in _refused(B)
    assert "takes (self); write (self, d)" in _refused(C)
    assert "by position" in _refused(D)
    assert "calls itself" in _refused(E)


def test_a_field_of_a_wrong_role_or_name() -> None:
    with pytest.raises(ModelError, match=r"Bad\.x is declared as a state, but a controller has"):

        class Bad(rt.Controller):
            x = rt.state()

    with pytest.raises(ModelError, match=r"derivative is a name that rtsim itself uses"):

        class Worse(rt.Plant):
            derivative = rt.state()


def test_a_controller_without_a_step() -> None:
    class Empty(rt.Controller):
        y = rt.output()

    with pytest.raises(ModelError, match="Empty has no method step"):
        Empty().controller()


class Cart(rt.Plant):
    x = rt.state("m", 1)
    v = rt.state("m/s")
    force = rt.input("N")
    place = rt.output("m", shape=(2,))

    def derivative(self, d: Any) -> None:
        d.x, d.v = self.v, self.force

    def outputs(self) -> None:
        self.place = self.x, self.x


class Brake(rt.Controller):
    x = rt.input("m")
    v = rt.input("m/s")
    force = rt.output("N")

    def step(self) -> None:
        self.force = -self.x - self.v


def _loop() -> tuple[rt.Scenario, Cart, Brake]:
    loop = rt.Scenario("loop")
    return loop, loop.plant(Cart(), step=0.01), loop.controller(Brake(), period=0.1)


@pytest.mark.parametrize(
    ("source", "target", "facts"),
    [
        ("cart.v", "brake.x", "cart.v is in m/s, but brake.x is in m"),
        ("cart.place", "brake.x", "cart.place has the shape (2,), but brake.x has the shape one"),
        ("brake.force", "cart.x", "cart.x is not an input"),
        ("cart.x", "brake.y", "unknown input 'y' in brake"),
        ("cart.y", "brake.x", "unknown signal 'y' in cart"),
        ("cart.x", "break.x", "unknown component 'break'"),
        ("cart.x", 3.0, "the target of a connection is 3.0"),
    ],
)
def test_a_wrong_connection_is_refused_with_its_line(source: Any, target: Any, facts: str) -> None:
    loop, _, _ = _loop()
    with pytest.raises(ScenarioError) as caught:
        loop.connect(source, target)
    assert facts in str(caught.value)
    assert f"{__file__}:" in str(caught.value)
    assert "loop.connect(source, target)" in str(caught.value)


def test_an_index_of_a_handle_is_explained() -> None:
    _, cart, _ = _loop()
    with pytest.raises(TypeError, match=r'write cart\.x or the text "cart\.x"'):
        cart["x"]  # type: ignore[index]


def test_components_that_are_connected_twice_are_told_to_connect_single_signals() -> None:
    loop, cart, brake = _loop()
    loop.connect(cart.x, brake.x)
    with pytest.raises(ScenarioError, match=r"brake\.x is already connected.*one by one"):
        loop.connect(brake, cart)


def test_an_input_is_connected_once() -> None:
    loop, cart, brake = _loop()
    loop.connect(cart.x, brake.x)
    with pytest.raises(ScenarioError, match=r"brake\.x is already connected, to cart\.x"):
        loop.connect(cart.x, brake.x)
    loop.connect(2.0, brake.v)
    loop.connect(cart.v, brake.v)


def test_a_signal_of_a_handle_is_not_a_number() -> None:
    _, cart, _ = _loop()
    for use in (
        lambda: cart.x + 1,
        lambda: 2 * cart.x,
        lambda: -cart.x,
        lambda: cart.x < 1,
        lambda: float(cart.x),
        lambda: bool(cart.x),
        lambda: cart.x == 0.0,
        lambda: cart.x != 0,
        lambda: cart.x in [1, 2],
        lambda: round(cart.x, 1),
        lambda: cart.x % 2,
        lambda: cart.x // 2,
        lambda: f"{cart.x:.2f}",
    ):
        with pytest.raises(TypeError, match=r"cart\.x is the name of a signal, not a number"):
            use()


def test_a_handle_refuses_other_names() -> None:
    _, cart, brake = _loop()
    with pytest.raises(AttributeError, match=r"unknown signal 'y' in cart; known: x, v, force"):
        cart.y  # noqa: B018
    with pytest.raises(AttributeError, match=r"use scenario\.set"):
        cart.x = 3.0
    assert str(brake) == "brake"
    assert {"x", "v", "force"} <= set(dir(cart))


def test_a_class_in_place_of_an_object() -> None:
    loop = rt.Scenario("loop")
    with pytest.raises(ScenarioError, match=r"Cart is a class; give an object: Cart\(\)"):
        loop.plant(Cart, step=0.1)  # type: ignore[call-overload]
    with pytest.raises(ScenarioError, match="has no model"):
        loop.plant("cart", step=0.1)  # type: ignore[call-overload]


def test_a_mode_is_used_by_its_names_only() -> None:
    class A(Base):
        def outputs(self) -> None:
            self.seen = 1.0 if self.phase else 0.0

    class B(Base):
        def outputs(self) -> None:
            phase = self.phase
            self.seen = 1.0 if phase == "up" else 0.0

    class C(Base):
        other = rt.mode("a", "b")

        def outputs(self) -> None:
            self.seen = 1.0 if self.phase == self.other else 0.0

    class D(Base):
        def outputs(self) -> None:
            self.seen = 1.0 if self.phase < "up" else 0.0

    class E(Base):
        @rt.rising
        def up(self) -> float:
            return self.x

        @up.reset
        def go(self) -> None:
            self.phase += 1

    class F(Base):
        def outputs(self) -> None:
            name = "up"
            self.seen = 1.0 if self.phase == name else 0.0

    assert "self.phase is a mode; compare it with ==, != or in" in _refused(A)
    assert "self.phase is a mode" in _refused(B)
    assert "modes with different names" in _refused(C)
    assert "a mode is compared with ==, != or in" in _refused(D)
    assert "is a mode; assign one of its names" in _refused(E)
    assert "write one of 'up', 'down', not name" in _refused(F)


def _negated(function: Any) -> Any:
    @functools.wraps(function)
    def inside(*given: Any) -> Any:
        return -function(*given)

    return inside


def test_a_decorator_that_an_equation_cannot_have_is_refused() -> None:
    class A(Base):
        @_negated
        def pull(self) -> float:
            return 3.0

        def derivative(self, d: Any) -> None:
            d.x = self.pull()

    assert "pull has a decorator" in _refused(A)


class Falls(rt.Plant):
    height = rt.state("m", 1)
    bounces = rt.memory()

    def derivative(self, d: Any) -> None:
        d.height = -1.0

    @rt.falling
    def floor(self) -> float:
        return self.height

    @floor.reset
    def bounce(self) -> None:
        self.height, self.bounces = 1.0, self.bounces + 1


def test_a_guard_of_a_base_class_is_not_lost_nor_changed() -> None:
    class Gone(Falls):
        def floor(self) -> float:
            return self.height

    with pytest.raises(ModelError, match=r"Gone\.floor would replace the guard floor of a base"):
        Gone.model()
    with pytest.raises(ModelError, match="would change guard floor in the base class"):

        class Changed(Falls):
            @Falls.floor.reset
            def lie(self) -> None:
                self.height = 0.0


def test_states_without_a_derivative_are_refused() -> None:
    class A(rt.Plant):
        x = rt.state()

        def derivativ(self, d: Any) -> None:
            d.x = 1.0

    with pytest.raises(ModelError, match=r"no method derivative\(self, d\); is derivativ meant"):
        A.model()


def test_a_local_variable_is_no_function_that_takes_self() -> None:
    class A(Base):
        def derivative(self, d: Any) -> None:
            pull = _free
            d.x = pull(self)

    assert "pull cannot be found, so it cannot take self" in _refused(A)


def test_a_source_that_has_changed_since_the_import_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "import rtsim as rt\n\n\nclass Grows(rt.Plant):\n    x = rt.state()\n\n"
        "    def derivative(self, d):\n# a comment at the margin\n        d.x = 1.0\n"
    )
    path = tmp_path / "changed_since.py"
    path.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    from changed_since import Grows  # type: ignore[import-not-found]

    assert Grows.model().name == "grows"
    path.write_text(text.replace("d.x = 1.0", "d.x = self.x"), encoding="utf-8")
    linecache.checkcache(str(path))
    assert Grows.model().name == "grows", "it is that of the class which was imported"

    class Again(Grows):  # type: ignore[misc]
        pass

    with pytest.raises(ModelError, match="has changed since it was imported"):
        Again.model()


def test_a_value_that_comes_too_late_is_refused() -> None:
    loop, part = rt.Scenario("s"), Cart()
    part.x = 2.0
    loop.plant(part, step=0.1)
    with pytest.raises(ModelError, match=r"Cart\.x is assigned after the object was given"):
        part.x = 3.0


def test_a_mode_is_set_by_its_name() -> None:
    class Moded(rt.Plant):
        phase = rt.mode("up", "down")
        seen = rt.output()

        def outputs(self) -> None:
            self.seen = 7.0 if self.phase in ("down", "sideways") else 1.0

    with pytest.raises(ModelError, match="unknown mode 'sideways'"):
        Moded.model()

    class Fine(Moded):
        def outputs(self) -> None:
            self.seen = 7.0 if self.phase in ("down",) else 1.0

    for given, seen in (("down", 7.0), ("up", 1.0)):
        loop = rt.Scenario("s", until=1)
        plant = loop.plant("m", Fine(), step=0.1)
        loop.set(plant.phase, given)
        assert rt.simulate(loop, compile=False)["m.seen"][-1] == seen
        other = rt.Scenario("s", until=1)
        other.plant("m", Fine.model(), step=0.1, discrete={"phase": given})
        assert rt.simulate(other, compile=False)["m.seen"][-1] == seen
    with pytest.raises(ScenarioError, match="unknown mode 'dwon'"):
        loop.set("m.phase", "dwon")
    with pytest.raises(ScenarioError, match="outside its range"):
        loop.set("m.phase", 17)


def test_a_controller_can_be_replaced_by_an_object_of_a_class() -> None:
    loop, cart, brake = _loop()
    for source, target in ((cart.x, brake.x), (cart.v, brake.v), (brake.force, cart.force)):
        loop.connect(source, target)

    class Idle(Brake):
        def step(self) -> None:
            self.force = 0.0

    loop.replace_controller("brake", Idle())
    assert rt.simulate(loop, until=1, compile=False)["cart.x"][-1] == 1.0


_t = 0.25


def shifted(body: Any, _t: float) -> Any:
    return body.speed * _t


def test_the_names_of_rtsim_are_no_names_of_the_user() -> None:
    """They would mean the time or a vector, without a word."""

    class OfModule(rt.Plant):
        speed = rt.state("m/s")

        def derivative(self, d: Any) -> None:
            d.speed = -_t

    class OfLambda(rt.Plant):
        speed = rt.state("m/s")

        def derivative(self, d: Any) -> None:
            f = lambda _t: self.speed * _t  # noqa: E731
            d.speed = f(2.0)  # type: ignore[no-untyped-call]

    class OfHelper(rt.Plant):
        speed = rt.state("m/s")

        def derivative(self, d: Any) -> None:
            d.speed = shifted(self, 2.0)

    for kind in (OfModule, OfLambda, OfHelper):
        with pytest.raises(ModelError, match=r"\.py:\d+: .*the name _t is used by rtsim"):
            kind.model()


def test_a_reset_with_the_name_of_its_guard_is_refused() -> None:
    with pytest.raises(ModelError, match=r"floor has the same name as its guard"):

        class Ball(rt.Plant):
            height = rt.state("m")

            @rt.falling
            def floor(self) -> float:
                return self.height

            @floor.reset  # type: ignore[no-redef]
            def floor(self) -> None:
                self.height = 0.0


@pytest.mark.parametrize("field", [rt.state, rt.parameter, rt.input, rt.memory])
def test_a_value_in_place_of_the_unit_is_refused(field: Any) -> None:
    with pytest.raises(ModelError, match=r"is 5\.0; the unit comes first.*\(\"m\", 5\.0\)"):
        field(5.0, "m")
    with pytest.raises(ModelError, match=r"is 5\.0; the unit comes first"):
        rt.output(5.0)  # type: ignore[call-overload]


def one_way(plant: Any, d: Any) -> None:
    d.level = 1.0
    if plant.level < 1.0:
        d.flow = 1.0


def early(plant: Any, d: Any) -> None:
    d.level = 1.0
    if plant.level > 1.0:
        return
    d.flow = 1.0


@rt.compiled
def sometimes(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    if x[0] < 1.0:
        dx[0] = 1.0


def covered(plant: Any, d: Any) -> None:
    d.level, d.flow = 1.0, 0.0
    if plant.level < 1.0:
        d.flow = 1.0


def chained(plant: Any, d: Any) -> None:
    d.level = 1.0
    if plant.level < 1.0:
        d.flow = 1.0
    elif plant.level < 2.0:
        d.flow = 2.0


def twice(plant: Any, d: Any) -> None:
    d.level = 1.0
    if plant.level < 1.0:
        d.flow = 1.0
    if plant.level >= 1.0:
        d.flow = 2.0


def filled(derivative: Any) -> Any:
    class Tank(rt.Plant):
        level = rt.state("m")
        flow = rt.state("m/s")

    Tank.derivative = derivative
    return bind(Tank.model(), compile=False)


@pytest.mark.parametrize("derivative", [one_way, early])
def test_a_derivative_that_a_path_leaves_out_is_refused(derivative: Any) -> None:
    """It would keep the value of an earlier call: a silent wrong number."""
    with pytest.raises(ModelError, match=r"not write flow on every path .*errors\.py:\d+\)"):
        filled(derivative)


@pytest.mark.parametrize("derivative", [covered, chained, twice])
def test_a_derivative_that_may_be_complete_is_accepted(derivative: Any) -> None:
    filled(derivative)


def test_parts_of_a_vector_are_changed_as_in_python() -> None:
    """Machine code would change them in place, one after the other."""
    found = []
    for compile in (False, True):

        class Sums(rt.Controller, compile=compile):
            kept = rt.memory("1", (1.0, 2.0, 3.0))
            table = rt.memory("1", ((1.0, 2.0), (3.0, 4.0)))
            last = rt.output()
            corner = rt.output()

            def step(self) -> None:
                self.kept[1:] += self.kept[:-1]
                self.table += self.table.T
                self.last, self.corner = self.kept[2], self.table[0, 1]

        loop = rt.Scenario("sums", until=0.4)
        loop.controller(Sums(), period=0.1)
        run = rt.simulate(loop)
        found.append([run["sums.last"].tolist()[:4], run["sums.corner"].tolist()[:4]])
    assert found == [[[5.0, 8.0, 12.0, 17.0], [5.0, 10.0, 20.0, 40.0]]] * 2


@pytest.mark.parametrize("where", ["derivative", "residual", "outputs", "a marked function"])
def test_the_functions_of_a_constrained_plant_are_complete_too(where: str) -> None:
    class Loop(rt.Plant):
        level = rt.state("m")
        flow = rt.algebraic("m/s", 1.0)
        seen = rt.output("m")

        def derivative(self, d: Any) -> None:
            d.level = self.flow

        def residual(self, r: Any) -> None:
            r.flow = self.flow - 1.0

        def outputs(self) -> None:
            self.seen = self.level

    class Incomplete(Loop):
        if where == "derivative":

            def derivative(self, d: Any) -> None:
                if self.level < 1.0:
                    d.level = self.flow

        elif where == "residual":

            def residual(self, r: Any) -> None:
                if self.level < 1.0:
                    r.flow = self.flow - 1.0

        elif where == "outputs":

            def outputs(self) -> None:
                if self.level < 1.0:
                    self.seen = self.level

    bind(Loop.model(), compile=False)
    if where == "a marked function":
        model = rt.Model("m", rt.Signals("level"), sometimes)
        with pytest.raises(ModelError, match=r"does not write level on every path"):
            bind(model, compile=False)
        return
    with pytest.raises(ModelError, match=r"does not write (level|flow|seen) on every path"):
        bind(Incomplete.model(), compile=False)
    scenario = rt.Scenario("loop", until=2)
    scenario.plant(Incomplete(), step=0.01)
    with pytest.raises(ModelError, match=r"does not write (level|flow|seen) on every path"):
        rt.simulate(scenario)


def test_the_name_of_a_signal_is_still_a_text() -> None:
    cart: Any = _loop()[1]
    assert cart.x == "cart.x"
    assert cart.x != "cart.v"
    assert {cart.x: 1}["cart.x"] == 1
    assert f"{cart.x:>8}" == "  cart.x"


def test_outputs_need_their_method() -> None:
    class Lamp(rt.Plant):
        light = rt.output("1")

        def output(self) -> None:
            self.light = 1.0

    with pytest.raises(
        ModelError, match=r"Lamp has outputs \(light\) but no method outputs.*output"
    ):
        Lamp.model()


def test_a_component_is_no_signal() -> None:
    loop, cart, brake = _loop()
    with pytest.raises(
        ScenarioError, match=r"the source .* is the component cart; .* such as cart"
    ):
        loop.connect(cart, brake.x)  # type: ignore[call-overload]


def test_only_a_scenario_can_be_simulated() -> None:
    with pytest.raises(ScenarioError, match=r"with a Base; give a Scenario"):
        rt.simulate(Base())


def unset(plant: Any, d: Any) -> None:
    if plant.level < 1.0:
        slope = 2.0
    d.level, d.flow = slope, 0.0


def same_condition(plant: Any, d: Any) -> None:
    d.level, d.flow = 0.0, 0.0
    if plant.level < 1.0:
        slope = 2.0
    if plant.level < 1.0:
        d.level = slope


def in_a_loop(plant: Any, d: Any) -> None:
    for k in range(3):
        last = k * plant.level
    d.level, d.flow = last, 0.0


def test_a_variable_that_only_a_condition_assigns_is_refused() -> None:
    """Plain Python raises an error there, and machine code goes on with 0."""
    with pytest.raises(ModelError, match=r"reads slope \(.*errors\.py:\d+\), but assigns it only"):
        filled(unset)


@pytest.mark.parametrize("derivative", [same_condition, in_a_loop])
def test_a_variable_that_may_have_a_value_is_accepted(derivative: Any) -> None:
    filled(derivative)

"""Mistakes in classes of plants and controllers: a message has the line, the name, the remedy."""

# ruff: noqa: ARG002
# mypy: disable-error-code="attr-defined"

from __future__ import annotations

from typing import Any

import pytest

import rtsim as rt
from rtsim.core.errors import ModelError, ScenarioError


class Base(rt.Plant):
    x = rt.state("m", 1)
    velocity = rt.state("m/s", shape=(3,))
    force = rt.input("N")
    gain = rt.parameter("1", 2)
    sum = rt.memory()
    phase = rt.mode("up", "down")
    seen = rt.output("m")


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

    with pytest.raises(ModelError, match=r"derivative has a meaning of its own"):

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

"""Functions of vectors take their arguments, and read their signals, by name."""

# ruff: noqa: ARG001, ARG005
# mypy: disable-error-code="no-untyped-call, attr-defined, no-untyped-def, arg-type, type-arg"

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import rtsim as rt
from rtsim import Guard, Model, PythonController, Scenario, Signal, Signals
from rtsim.core.errors import ModelError
from rtsim.core.tag import Tag
from rtsim.discrete.declaration import population
from rtsim.equations.delays import Delayed
from rtsim.equations.modal import Mode, Transition, modal
from rtsim.equations.model import bind
from rtsim.linear import trim

STATES = Signals("place [m] = 1", "speed [m/s] = 2", Signal("spin", "rad/s", shape=(2,)))
DISCRETE = Signals("count = 5")
INPUTS = Signals("force [N] = 3")
PARAMETERS = Signals("mass [kg] = 2", "lift = 4")


def cart(derivative: Any, **more: Any) -> Model:
    return Model(
        "cart", STATES, derivative, discrete=DISCRETE, inputs=INPUTS, parameters=PARAMETERS, **more
    )


def plain(t, x, z, u, p, dx):
    dx[0] = x[1]
    dx[1] = u[0] / p[0] - 0.1 * x[1] + z[0]
    dx[2] = x[3]
    dx[3] = -x[2] + t


def by_index(dx, u, t, x, p, z):
    dx[0] = x[1]
    dx[1] = u[0] / p[0] - 0.1 * x[1] + z[0]
    dx[2] = x[3]
    dx[3] = -x[2] + t


def by_name(u, t, p, x, dx, z):
    dx.place = x.speed
    dx.speed = u.force / p.mass - 0.1 * x.speed + z.count
    dx.spin = x.spin[1], -x.spin[0] + t


def mixed(t, x, z, u, p, dx):
    dx[0] = x.speed
    dx[1] = u[0] / p.mass - 0.1 * x[1] + z.count
    dx.spin[0], dx.spin[1] = x.spin[1], -x.spin[0] + t


def value(function: Callable[..., Any], size: int = 4) -> list[float]:
    out = np.zeros(size)
    vectors = [s.initial() for s in (STATES, DISCRETE, INPUTS, PARAMETERS)]
    vectors[0][2:] = 0.25, 0.75
    function(0.5, *vectors, out)
    return out.tolist()


def refused(derivative: Any, **more: Any) -> str:
    with pytest.raises(ModelError) as caught:
        cart(derivative, **more)
    return str(caught.value)


@pytest.mark.parametrize("function", [by_index, by_name, mixed])
def test_names_give_the_values_of_positions(function: Any) -> None:
    assert value(cart(function).derivative) == value(plain)


def test_the_order_of_the_arguments_has_no_meaning() -> None:
    for order in itertools.permutations(("u", "z", "dx")):
        space: dict[str, Any] = {}
        exec(f"def f({', '.join(order)}):\n    dx[:] = 10.0 * u[0] + z[0]\n", space)
        assert value(cart(space["f"]).derivative) == [35.0] * 4


def test_inputs_and_discrete_signals_are_not_exchanged() -> None:
    def f(t, x, u, z, p, dx):
        dx[:] = z[0] - u[0]

    assert value(cart(f).derivative) == [2.0] * 4


def test_a_function_in_the_documented_order_is_used_as_it_is() -> None:
    class Table(NamedTuple):
        slope: float

    table = Table(2.0)

    def f(t, x, z, u, p, dx):
        dx[: x.size] = table.slope * math.sin(x[0]) * x.sum() * np.linalg.norm(u)

    def filled(t, x, z, u, p, out):
        out[0] = x[0]

    def rebound(t, x, z, u, p, dx):
        p = Table(p[0])
        dx[:] = p.slope

    assert cart(f).derivative is f
    assert cart(rebound).derivative is rebound
    assert cart(f, outputs=Signals("y"), output=filled).output is filled
    assert PythonController(plain_law, Signals("a"), Signals("b")).law is plain_law


def plain_law(t, u, s, p, y):
    y[0] = 2.0 * u[0]


@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("function", [by_index, by_name, mixed])
def test_a_run_has_the_bits_of_positions(function: Any, compile: bool) -> None:
    def rows(derivative: Any) -> Any:
        loop = Scenario("loop", until=0.3)
        loop.plant("cart", cart(derivative), step=0.01, inputs={"force": 1.5})
        return rt.simulate(loop, compile=compile)["cart.speed"].tolist()

    assert rows(function) == rows(plain)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda t, x, v, dx: None, r"takes (t, x, v, dx), but v is not a possible argument. The"),
        (
            lambda t, x, w, u, p, dx: None,
            "but w is not a possible argument; did you mean z? The poss",
        ),
        (lambda t, x, dX: None, "but dX is not a possible argument; did you mean dx?"),
        (lambda time, dx: None, "but time is not a possible argument; did you mean t?"),
        (lambda state, inputs, dx: None, "but state is not a possible argument; did you mean x?"),
        (lambda dx, paramters: None, "but paramters is not a possible argument; did you mean p?"),
        (
            lambda t, x: None,
            "but dx is missing. The possible arguments are (t, x, z, u, p, dx), in any",
        ),
        (lambda dx, out: None, "dx and out are the same vector"),
        (lambda x, *rest: None, "the arguments before *arguments must be (t)"),
        (lambda t, x, z, u, p, dx, more: None, "more is not a possible argument"),
    ],
)
def test_another_name_is_refused_where_it_is_written(function: Any, said: str) -> None:
    message = refused(function)
    assert message.startswith(f"{__file__}:{function.__code__.co_firstlineno}: derivative of")
    assert said in message


def _misspelt(x, dx):
    dx.place = x.sped


def _of_another(x, dx):
    dx.place = x.force


def _no_derivative(x, dx):
    dx.force = 1.0


def _only_read(x, dx):
    x.speed = 1.0


def _parameter(p, dx):
    p.mass += 1.0


def _outside_of_it(x, dx):
    dx.place = x.spin[2]


def _two_for_one(x, dx):
    dx.spin = 1.0, 2.0, 3.0


def _in_the_order(t, x, z, u, p, dx):
    dx[0] = x.sped


def half(body):
    return 0.5 * body.sped


def _in_a_helper(x, dx):
    dx.place = half(x)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (_misspelt, "unknown state 'sped' in x; did you mean speed, spin?"),
        (_of_another, "x.force: force is an input, so write u.force; x has place, speed, spin"),
        (_no_derivative, "dx.force: force is an input; dx has place, speed, spin"),
        (_only_read, "x.speed is assigned, but the function only reads x; assign dx.speed"),
        (_parameter, "p.mass is assigned, but the function only reads p; it assigns dx"),
        (_outside_of_it, "x.spin[2]: spin has the shape (2,)"),
        (_two_for_one, "spin has the shape (2,), but 3 values are assigned"),
        (_in_the_order, "unknown state 'sped' in x; did you mean speed, spin?"),
    ],
)
def test_a_wrong_signal_is_refused_where_it_is_written(function: Any, said: str) -> None:
    line = function.__code__.co_firstlineno + 1
    assert refused(function) == f"{__file__}:{line}: derivative of model cart: {said}"


def test_a_wrong_signal_in_a_helper_is_refused_there() -> None:
    line = half.__code__.co_firstlineno + 1
    assert refused(_in_a_helper).startswith(f"{__file__}:{line}: derivative of model cart: unknown")


@rt.compiled
def drag(body, p, factor=0.5):
    return factor * body.speed * p.mass


def indexed(x):
    return x[0] + x.sum()


@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_helpers_read_names_of_the_vectors_that_they_are_given(compile: bool) -> None:
    inner = rt.compiled(indexed)

    def f(p, x, dx):
        dx.place = drag(x, p) + drag(p=p, body=x, factor=2.0)
        dx.speed = inner(x)
        dx.spin = 0.0, 0.0

    bound = bind(cart(f), compile=compile)
    assert value(bound.derivative.call) == [0.5 * 4 + 2.0 * 4, 1 + 4.0, 0.0, 0.0]


p = np.array([100.0])
"""A global variable with the name of an argument."""


def test_an_argument_that_is_not_taken_hides_no_global_name() -> None:
    def f(dx):
        dx[:] = p[0]

    assert value(cart(f).derivative) == [100.0] * 4


def test_constants_follow_their_module(monkeypatch: pytest.MonkeyPatch) -> None:
    derivative = cart(reads_p).derivative
    monkeypatch.setitem(globals(), "p", np.array([7.0]))
    assert value(derivative) == [7.0] * 4


def reads_p(dx):
    dx[:] = p[0]


class Law:
    gain = 3.0

    def order(self, dx, u):
        dx[:] = self.gain * u[0]

    def names(self, dx, u):
        dx.place = self.gain * u.force
        dx[1:] = dx.place

    def __call__(self, *, dx, u):
        dx[:] = self.gain * u[0]


def scaled(dx, u, gain=1.0, *, power=1):
    dx[:] = (gain * u[0]) ** power


def logged(function: Any) -> Any:
    @functools.wraps(function)
    def inner(*arguments: Any) -> Any:
        return function(*arguments)

    return inner


@logged
def decorated(dx, u):
    dx[:] = 3.0 * u[0]


_space: dict[str, Any] = {}
exec("def sourceless(dx, u):\n    dx[:] = 3.0 * u[0]\n", _space)


@pytest.mark.parametrize(
    "function",
    [
        lambda dx, u: dx.fill(3.0 * u[0]),
        lambda *given: given[-1].fill(3.0 * given[3][0]),
        Law().order,
        Law().names,
        Law(),
        functools.partial(scaled, gain=3.0),
        functools.partial(scaled, power=2),
        scaled,
        decorated,
        _space["sourceless"],
    ],
)
def test_every_callable_takes_its_arguments_by_name(function: Any) -> None:
    wanted = 3.0 if function is scaled else 9.0
    assert value(cart(function).derivative) == [wanted] * 4


def test_a_function_without_source_compiles() -> None:
    bound = bind(cart(_space["sourceless"]))
    assert value(bound.derivative.call) == [9.0] * 4
    assert bound.derivative.py_func.__name__ == "sourceless"


def test_a_signal_with_the_name_of_an_attribute_of_arrays() -> None:
    states = Signals("T = 3", "mean = 5")

    def f(x, dx):
        dx.T, dx.mean = x.T + x.mean, x.mean()

    def asked(x, dx):
        dx[0] = x.size

    out = np.zeros(2)
    Model("m", states, f).derivative(0.0, states.initial(), None, None, None, out)  # type: ignore[misc]
    assert out.tolist() == [8.0, 4.0]
    with pytest.raises(ModelError, match=r"x.size can be the signal or an attribute .* x\[0\]"):
        Model("m", Signals("size"), asked)


def test_events_change_signals_by_name() -> None:
    def derivative(x, dx):
        dx.height, dx.speed = x.speed, -9.81

    def guard(g, x):
        g.floor = x.height

    def reset(x, z, i, p):
        x.height, x.speed = 0.0, -p.restitution * x.speed
        z.bounces += 1 + i

    def output(y, x):
        y.energy = 9.81 * x.height + 0.5 * x.speed**2

    def update(z, x):
        z.seen = x.height

    def tick(due, z):
        z.ticks += due[0]

    model = Model(
        "ball",
        Signals("height = 1", "speed"),
        derivative,
        discrete=Signals("bounces", "seen", "ticks"),
        parameters=Signals("restitution = 0.7"),
        outputs=Signals("energy"),
        output=output,
        update=update,
        guards=(Guard("floor", -1),),
        guard=guard,
        reset=reset,
        timers=(rt.equations.delays.Timer(rt.core.tag.Period.of(0.25)),),
        tick=tick,
    )
    loop = Scenario("ball", until=1)
    loop.plant("ball", model, step=0.01, update_period=0.5)
    run = rt.simulate(loop)
    assert run["ball.bounces"][-1] == 1
    assert run["ball.ticks"][-1] == 5
    assert 0.0 < run["ball.seen"][-1] < 1.0
    assert run["ball.energy"][0] == 9.81


def test_what_a_reset_only_reads_is_not_assigned() -> None:
    def reset(u, x):
        u.force = x.speed

    guard: Any = lambda x, g: g.fill(x[0])  # noqa: E731
    said = refused(plain, guards=(Guard("g"),), guard=guard, reset=reset)
    assert "u.force is assigned, but the function only reads u; it assigns x and z" in said


def test_algebraic_variables_have_names() -> None:
    def derivative(y, dx):
        dx.level = -y.flow

    def residual(r, y, x):
        r.flow = y.flow - 0.5 * x.level

    def output(out, y):
        out.twice = 2.0 * y.flow

    def mass(m):
        m[0, 0] = 2.0

    model = Model(
        "tank", Signals("level = 4"), derivative, algebraic=Signals("flow = 1"), mass=mass,
        residual=residual, outputs=Signals("twice"), output=output,
    )  # fmt: skip
    bound, out = bind(model), np.zeros(1)
    z, none = np.ones(1), np.zeros(0)
    bound.output.call(0.0, np.array([4.0]), z, none, none, out)
    assert out[0] == pytest.approx(4.0)
    bound.derivative.call(0.0, np.array([4.0]), z, none, none, out)
    assert out[0] == pytest.approx(-1.0)


def test_the_functions_of_modes_delays_and_lines_have_names() -> None:
    def rising(dx, p):
        dx.level = p.rate

    def full(x, p):
        return x.level - p.top

    def emptied(x):
        x.level = 0.25

    def shown(y, x):
        y.seen = x.level

    tank = modal(
        "tank",
        Signals("level"),
        [Mode("filling", rising, (Transition("full", full, "still", 1, emptied),)), Mode("still")],
        parameters=Signals("rate = 1", "top = 0.5"),
        outputs=Signals("seen"),
        output=shown,
    )
    loop = Scenario("loop", until=1)
    loop.plant("tank", tank, step=0.01)
    assert rt.simulate(loop)["tank.seen"][-1] == 0.25

    def lag(p):
        return p.lag

    def follows(u, dx):
        dx.x = u.x_delayed + u.twice_delayed

    def line(v, x):
        v.twice = 2.0 * x.x

    late = Model(
        "late", Signals("x = 1"), follows, parameters=Signals("lag = 0.5"),
        delays=(
            Delayed("x", lag, least=0.1, most=1.0, before=lambda: 2.0),
            Delayed("twice", 0.5, before=3.0),
        ),
        lines=Signals("twice"), line=line,
    )  # fmt: skip
    loop = Scenario("loop", until=0.25)
    loop.plant("lagging", late, step=0.05)
    assert rt.simulate(loop)["lagging.x"][-1] == pytest.approx(1.0 + 5.0 * 0.25)


def test_a_wrong_name_in_a_mode_is_refused() -> None:
    def misspelt(dx, p):
        dx.level = p.rat

    with pytest.raises(ModelError, match="derivative of mode on: unknown parameter 'rat' in p"):
        modal("m", Signals("level"), [Mode("on", misspelt)], parameters=Signals("rate"))
    with pytest.raises(ModelError, match="v is not a possible argument"):
        Mode("on", lambda v, dx: None)


def test_the_rule_of_a_population_has_names() -> None:
    def rule(after, i, before, p):
        after[0, i] = p.gain * before[0, i]

    model = population("cells", 2, Signals("level"), rule, parameters=Signals("gain = 3"))
    bound, z = bind(model), np.array([1.0, 2.0])
    none = np.zeros(0)
    bound.update.call(0.0, none, z, none, np.array([3.0]))
    assert z.tolist() == [3.0, 6.0]


def test_the_residual_of_a_trim_has_names() -> None:
    def residual(y, dx, point):
        return np.array([dx.x - 1.0, point.u[0] - y.seen])

    def derivative(x, u, dx):
        dx.x = 2.0 * u.a - x.x

    model = Model(
        "m", Signals("x"), derivative, inputs=Signals("a"), outputs=Signals("seen"),
        output=lambda y, x: y.fill(x[0]),
    )  # fmt: skip
    found = trim(model, free={"x": 0.0, "a": 0.0}, residual=residual, compile=False)
    assert found.values["a"] == pytest.approx(1.0)
    with pytest.raises(ModelError, match=r"residual of the trim of m .* v is not a poss"):
        trim(model, free={"x": 0.0}, residual=lambda v: v)


@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_a_control_function_takes_its_arguments_by_name(compile: bool) -> None:
    def law(y, u, s, p):
        s.sum += u.error
        y.force = p.gain * s.sum

    controller = PythonController(
        law,
        Signals("error"),
        Signals("force"),
        memory=Signals("sum = 1"),
        parameters=Signals("gain = 2"),
        compile=compile,
    ).ready(True)
    controller.send(Tag(0), np.array([4.0]))
    answer = controller.receive(Tag(0), 0.0)
    assert answer is not None
    assert answer[0] == 10.0


def test_mistakes_in_a_control_function() -> None:
    inputs, outputs = Signals("error"), Signals("force")

    def misspelt(u, y):
        y.force = u.eror

    def inputs_first(t, s, u, p, y):
        y[0] = u[0]

    with pytest.raises(ModelError, match="unknown input 'eror' in u; did you mean error"):
        PythonController(misspelt, inputs, outputs)
    with pytest.raises(ModelError, match="x is not a possible argument; did you mean u"):
        PythonController(lambda t, x, s, p, y: None, inputs, outputs)
    controller = PythonController(inputs_first, inputs, outputs)
    assert list(inspect.signature(controller.law).parameters) == ["t", "u", "s", "p", "y"]


def with_default(x: Any, dx: Any, k: float = 2.0) -> None:
    dx[0] = -k * x[0]


def in_order_with_default(
    t: Any,
    x: Any,
    z: Any,
    u: Any,
    p: Any,
    dx: Any,
    k: float = 2.0,
) -> None:
    dx[0] = -k * x[0]


def with_keyword(x: Any, dx: Any, *, k: float = 2.0) -> None:
    dx[0] = -k * x[0]


@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize("function", [with_default, in_order_with_default, with_keyword])
def test_an_argument_with_a_default_is_a_constant(function: Any, compile: bool) -> None:
    out = np.zeros(1)
    bound = bind(Model("m", Signals("x = 3"), function), compile=compile)
    bound.derivative.call(0.0, np.array([3.0]), np.zeros(0), np.zeros(0), np.zeros(0), out)
    assert out.tolist() == [-6.0]

"""Plants as classes: equal results to models of positional functions, on both engines."""

# ruff: noqa: ARG001

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pytest

import rtsim as rt
from rtsim.core.errors import ModelError
from rtsim.core.tag import Tag
from rtsim.equations.model import bind

G = 9.81


class Ball(rt.Plant):
    height = rt.state("m", 1)
    speed = rt.state("m/s")
    at_rest = rt.memory()
    restitution = rt.parameter("1", 0.7)

    def derivative(self, d: Self) -> None:
        d.height = self.speed
        d.speed = -G * (1.0 - self.at_rest)

    @rt.falling
    def floor(self) -> float:
        return self.height

    @floor.reset
    def bounce(self) -> None:
        self.height, self.speed = 0.0, -self.restitution * self.speed

    @floor.stop
    def lie(self) -> None:
        self.height, self.speed, self.at_rest = 0.0, 0.0, 1.0


def _fall(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:
    dx[0] = x[1]
    dx[1] = -G * (1.0 - z[0])


def _height(t: float, x: Any, z: Any, u: Any, p: Any, g: Any) -> None:
    g[0] = x[0]


def _bounce(i: int, t: float, x: Any, z: Any, u: Any, p: Any) -> None:
    x[0], x[1] = 0.0, -p[0] * x[1]


def _lie(i: int, t: float, x: Any, z: Any, u: Any, p: Any) -> None:
    x[0], x[1], z[0] = 0.0, 0.0, 1.0


POSITIONAL = rt.Model(
    "ball",
    states=rt.Signals("height [m] = 1", "speed [m/s]"),
    discrete=rt.Signals("at_rest"),
    parameters=rt.Signals("restitution = 0.7"),
    derivative=_fall,
    guards=(rt.Guard("floor", -1),),
    guard=_height,
    reset=_bounce,
    stop=_lie,
)


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("solver", ["rk4", "dp54"])
def test_a_class_gives_the_rows_of_its_positional_model(compile: bool, solver: str) -> None:
    runs = []
    for given in (("ball", Ball()), ("ball", POSITIONAL)):
        scenario = rt.Scenario("ball", until=3)
        scenario.plant(*given, step=0.01, solver=solver)
        runs.append(rt.simulate(scenario, compile=compile))
    for name in ("ball.height", "ball.speed"):
        assert np.array_equal(runs[0][name], runs[1][name])
    assert runs[0]["ball.at_rest"][-1] == 1.0


def _values(model: rt.Model, compile: bool, x: Any, u: Any = (), z: Any = ()) -> tuple[Any, Any]:
    """Return the derivative and the outputs of ``model``."""
    bound = bind(model, compile=compile)
    vectors = [np.array(v, dtype=float) for v in (x, z, u)]
    p = model.parameters.initial()
    dx, y = np.zeros(model.states.size), np.zeros(model.outputs.size)
    bound.derivative.call(2.0, *vectors, p, dx)
    if model.outputs.size:
        bound.output.call(2.0, *vectors, p, y)
    return dx, y


def drag(body: Body, factor: float) -> float:
    return factor * body.density * float(body.velocity[0])


class Body(rt.Plant):
    """A body with vectors, a matrix, constants, helpers, a property and a static method."""

    position = rt.state("m", (0.0, 0.0, 10.0))
    velocity = rt.state("m/s", shape=3)
    spin = rt.state("rad/s")
    wind = rt.input("m/s", shape=(3,))
    turn = rt.parameter("1", ((0.0, 1.0, 0.0), (-1.0, 0.0, 0.0), (0.0, 0.0, 2.0)))
    density = rt.parameter("kg/m^3", 1.2)
    speed = rt.output("m/s")
    turned = rt.output("m/s", shape=(3,))

    GRAVITY = 9.81
    AXIS = (0.0, 0.0, 1.0)

    @property
    def fast(self) -> float:
        return float(self.velocity[0] ** 2 + self.velocity[1] ** 2)

    @staticmethod
    def half(value: float) -> float:
        return value / 2

    def pull(self, factor: float, more: float = 1.0) -> float:
        return factor * self.GRAVITY * self.AXIS[2] + more

    def derivative(self, d: Self) -> None:
        d.position = self.velocity
        d.velocity = 1.0, drag(self, 2.0), -self.pull(0.5, more=0.25)
        d.velocity[0] += self.wind[-1]
        k = 1
        d.velocity[1] -= self.wind[k]
        d.spin = self.half(self.fast) * self.t

    def outputs(self) -> None:
        self.speed = math.sqrt(self.fast)
        self.turned[:] = self.turn[0] * self.velocity[1]
        self.turned[2] = self.turn[2, 2]


@pytest.mark.parametrize("compile", [True, False, "checked"])
def test_vectors_matrices_constants_and_helpers(compile: bool) -> None:
    x = [1, 2, 3, 4, 5, 6, 7]
    dx, y = _values(Body.model(), compile, x, u=[10, 20, 30])
    assert dx[:3].tolist() == [4, 5, 6]
    assert dx[3] == 1.0 + 30
    assert dx[4] == 2.0 * 1.2 * 4 - 20
    assert dx[5] == -(0.5 * 9.81 * 1.0 + 0.25)
    assert dx[6] == (16 + 25) / 2 * 2.0
    assert y.tolist() == [math.sqrt(41), 0.0, 5.0, 2.0]


class Heavy(Body):
    """A class that derives fields and methods, replaces one and extends another."""

    mass = rt.parameter("kg", 3)
    GRAVITY = 1.0

    def derivative(self, d: Self) -> None:
        super().derivative(d)
        d.spin = self.mass


@pytest.mark.long
def test_a_derived_class_adds_fields_and_calls_the_method_of_its_base() -> None:
    dx, _ = _values(Heavy.model(), False, [1, 2, 3, 4, 5, 6, 7], u=[10, 20, 30])
    assert dx.tolist()[5:] == [-(0.5 * 1.0 * 1.0 + 0.25), 3.0]
    assert Heavy.model().parameters.names == ("turn", "density", "mass")
    compiled, _ = _values(Heavy.model(), True, [1, 2, 3, 4, 5, 6, 7], u=[10, 20, 30])
    assert compiled.tolist() == dx.tolist()


class Room(rt.Plant):
    """A thermostat with a mode, which is compared and assigned as text."""

    temperature = rt.state("K", 292)
    heating = rt.mode("off", "on")
    switched = rt.memory()

    def derivative(self, d: Self) -> None:
        d.temperature = 1.0 if self.heating == "on" else -1.0

    @rt.falling(at_start=True, report=["switched"])
    def cold(self) -> float:
        return self.temperature - 290

    @cold.reset
    def start(self) -> None:
        self.heating, self.switched = "on", self.switched + 1

    @rt.rising
    def warm(self) -> float:
        return self.temperature - 295

    @warm.reset
    def end(self) -> None:
        self.heating = "off"


@pytest.mark.parametrize("compile", [True, False])
def test_modes_are_compared_and_assigned_by_name(compile: bool) -> None:
    scenario = rt.Scenario("room", until=20)
    room = scenario.plant(Room(), step=0.1)
    run = rt.simulate(scenario, compile=compile)
    values = run[str(room.temperature)]
    assert values.min() == pytest.approx(290)
    assert values.max() == pytest.approx(295)
    assert run["room.switched"][-1] == 2.0
    assert Room.model().modes == ("off", "on")
    cold = rt.Scenario("room", until=1)
    cold.plant(Room(heating="on", temperature=280.0), step=0.1)
    assert rt.simulate(cold, compile=False)["room.temperature"][-1] == pytest.approx(281)


class Clocked(rt.Plant):
    """Timers, a delayed state, and a delayed line."""

    level = rt.state("m", 1)
    count = rt.memory()
    noise = rt.memory()
    late = rt.delayed("level", "lag", before=7.0)
    twice = rt.line("m")
    late_twice = rt.delayed("twice", 0.25, before=1.0)
    lag = rt.parameter("s", 0.5)
    seen = rt.output("m")
    doubled = rt.output("m")

    def derivative(self, d: Self) -> None:
        d.level = 0.0

    def lines(self) -> None:
        self.twice = 2 * self.level

    def outputs(self) -> None:
        self.seen = self.late
        self.doubled = self.late_twice

    @rt.every(0.25, draws=("noise",))
    def tick(self) -> None:
        self.count += 1

    @rt.once(0.6)
    def fill(self) -> None:
        self.level = 5.0


@pytest.mark.parametrize("compile", [True, False])
def test_timers_and_delays(compile: bool) -> None:
    scenario = rt.Scenario("tank", until=1)
    scenario.plant("tank", Clocked(lag=0.3), step=0.01)
    run = rt.simulate(scenario, compile=compile)
    assert run["tank.count"][-1] == 5.0
    assert run["tank.noise"][-1] != 0.0
    assert run["tank.seen"][0] == 7.0
    assert run["tank.seen"][-1] == 5.0
    assert run["tank.doubled"][-1] == 10.0


class Leak(rt.Plant):
    """A tank whose outflow is an algebraic variable."""

    level = rt.state("m", 5)
    flow = rt.algebraic("m/s", 0.1)
    gain = rt.parameter("1/s", 2)

    def derivative(self, d: Self) -> None:
        d.level = self.flow

    def residual(self, r: Self) -> None:
        r.flow = self.flow + self.gain * self.level


@pytest.mark.parametrize("compile", [True, False])
def test_an_algebraic_variable(compile: bool) -> None:
    scenario = rt.Scenario("leak", until=1)
    scenario.plant(Leak(gain=1.0), step=0.01)
    run = rt.simulate(scenario, compile=compile)
    assert run["leak.level"][-1] == pytest.approx(5 * math.exp(-1), rel=1e-6)


class Brake(rt.Controller):
    speed = rt.input("m/s")
    force = rt.output("N")
    peak = rt.memory("m/s")
    gain = rt.parameter("N.s/m", 2)

    def step(self) -> None:
        self.peak = max(self.peak, self.limited(self.speed))
        self.force = -self.gain * self.peak

    def limited(self, value: float) -> float:
        return min(value, 3.0)


@pytest.mark.parametrize("compile", [True, False])
def test_a_controller_class_has_memory_parameters_and_helpers(compile: bool) -> None:
    class Compiled(Brake, compile=compile):
        pass

    class Sled(rt.Plant):
        v = rt.state("m/s", 5)
        force = rt.input("N")

        def derivative(self, d: Self) -> None:
            d.v = self.force

    loop = rt.Scenario("loop", until=1)
    sled = loop.plant(Sled(), step=0.1)
    brake = loop.controller("brake", Compiled(gain=1.5, peak=1.0), period=0.5)
    loop.connect(sled.v, brake.speed)
    loop.connect(brake.force, sled.force)
    run = rt.simulate(loop)
    assert run["sled.v"][-1] == pytest.approx(5 - 1.5 * 3.0)


def test_the_documentation_of_a_class_lists_its_fields() -> None:
    assert "- restitution [1] = 0.7, parameter" in (Ball.__doc__ or "")
    assert "- velocity [m/s], state, shape (3,)" in (Body.__doc__ or "")
    assert Ball(restitution=0.5).restitution == 0.5
    assert Ball().height == 1


def test_a_class_inside_a_function_reads_the_variables_around_it() -> None:
    rate = 3.0

    class Ramp(rt.Plant):
        x = rt.state()

        def derivative(self, d: Self) -> None:
            d.x = rate

    for compile in (True, False):
        assert _values(Ramp.model(), compile, [0])[0].tolist() == [3.0]


def test_a_value_out_of_range_is_refused() -> None:
    class Limited(rt.Plant):
        x = rt.state("m", 1, low=0)

        def derivative(self, d: Self) -> None:
            d.x = 0.0

    scenario = rt.Scenario("limited")
    scenario.plant(Limited(x=-1), step=0.1)
    with pytest.raises(Exception, match=r"x = -1 m is outside its range \[0, inf\] m"):
        rt.simulate(scenario)


def test_every_part_of_a_message_about_a_field_that_no_class_has() -> None:
    with pytest.raises(ModelError, match=r"unknown field 'hight' in Ball; did you mean height"):
        Ball(hight=1)
    with pytest.raises(ModelError, match="unknown field 'log' in Ball"):
        Ball().log = 1


class Views(rt.Controller):
    """Vectors that get a second name, or are exchanged."""

    new = rt.input("m", shape=(2,))
    last = rt.memory("m", shape=(2,))
    a = rt.memory("1", (1.0, 2.0))
    b = rt.memory("1", (3.0, 4.0))
    table = rt.parameter("1", ((1.0, 2.0), (3.0, 4.0)))
    rate = rt.output("m", shape=(2,))
    row = rt.output("1", shape=(2,))

    def pair(self) -> Any:
        return self.last, self.a[1:]

    def step(self) -> None:
        previous = self.last
        self.last = self.new
        self.rate = self.last - previous
        self.a, self.b = self.b, self.a
        first = self.table[0]
        first += 10.0
        self.row = first


@pytest.mark.parametrize("compile", [True, False])
def test_a_second_name_of_a_vector_keeps_its_value(compile: bool) -> None:
    class Compiled(Views, compile=compile):
        pass

    made = Compiled().controller().ready(compile)
    for k, seen in enumerate(([1.0, 2.0], [4.0, 5.0])):
        tag = Tag(k)
        made.send(tag, np.array([1.0, 2.0]) if k == 0 else np.array([5.0, 7.0]))
        answer = made.receive(tag, 0.0)
        assert answer is not None
        assert answer.tolist() == [*seen, 11.0, 12.0]
        assert made.s[2:].tolist() == ([3, 4, 1, 2] if k == 0 else [1, 2, 3, 4])
    assert made.p.tolist() == [1.0, 2.0, 3.0, 4.0]


RATE = 1.0


class Follows(rt.Plant):
    """Reads a global name, a constant of the class, and a default."""

    x = rt.state()
    STEP = 1.0

    def more(self, by: float = RATE) -> float:
        return by

    def derivative(self, d: Self) -> None:
        d.x = RATE + 10 * self.STEP + 100 * self.more()


def test_the_next_run_uses_changed_constants_and_the_defaults_of_the_definition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for compile in (True, False):
        assert _values(Follows.model(), compile, [0])[0].tolist() == [111.0]
    monkeypatch.setitem(globals(), "RATE", 2.0)
    monkeypatch.setattr(Follows, "STEP", np.float64(3.0))
    for compile in (True, False):
        assert _values(Follows.model(), compile, [0])[0].tolist() == [132.0]


class Soft(Ball):
    """Replaces the reset of a guard of its base class by name."""

    def bounce(self) -> None:
        self.height, self.speed = 0.0, -0.5 * self.restitution * self.speed


def test_a_derived_class_replaces_a_reset_by_its_name() -> None:
    ends = []
    for part in (Ball(), Soft()):
        scenario = rt.Scenario("ball", until=0.7)
        scenario.plant("ball", part, step=0.01)
        ends.append(rt.simulate(scenario, compile=False)["ball.height"].max())
        ends.append(rt.simulate(scenario, compile=False)["ball.height"][-1])
    assert ends[1] > 2 * ends[3] > 0


def _scaled(body: Follows, /, factor: float) -> float:
    return factor * body.x


def test_arguments_by_position_only() -> None:
    class Grows(Follows):
        def derivative(self, d: Self) -> None:
            d.x = _scaled(self, 2.0)

    for compile in (True, False):
        assert _values(Grows.model(), compile, [4])[0].tolist() == [8.0]


def test_a_controller_that_is_not_compiled_calls_its_methods_as_python() -> None:
    class Worded(rt.Controller):
        seen = rt.input("m")
        said = rt.output("m")

        def step(self) -> None:
            self.said = self._read() + self._half()

        def _read(self) -> float:
            return float({"text": str(self.seen)}["text"])

        @staticmethod
        def _half() -> float:
            return float("0.5")

    controller = Worded().controller()
    controller.send(Tag(0), np.array([2.25]))
    answer = controller.receive(Tag(0), 0.0)
    assert answer is not None
    assert answer[0] == 2.75


def pull(body: Any) -> Any:
    return 0.5 * body.speed**2


def test_a_helper_serves_a_method_and_a_function_of_vectors() -> None:
    class Slide(rt.Plant):
        speed = rt.state("m/s", 3)

        def derivative(self, d: Any) -> None:
            d.speed = -pull(self)

    def derivative(dx: Any, x: Any) -> None:
        dx.speed = -pull(x)

    function = rt.Model("slide", rt.Signals("speed [m/s] = 3"), derivative)
    out, none = np.zeros((2, 1)), np.zeros(0)
    for row, model in zip(out, (Slide.model(), function), strict=True):
        bind(model).derivative.call(0.0, np.array([3.0]), none, none, none, row)
    assert out.tolist() == [[-4.5], [-4.5]]


def test_a_method_may_use_the_names_of_arguments_for_its_own() -> None:
    class Slide(rt.Plant):
        speed = rt.state("m/s", 3)
        _t = 2.0

        def derivative(self, d: Any) -> None:
            x, u = self.speed, 1.0
            d.speed = self._t * x * u

    model = Slide.model()
    out, none = np.zeros(1), np.zeros(0)
    replace(model, name="other").derivative(0.0, np.array([3.0]), none, none, none, out)  # type: ignore[misc]
    assert out[0] == 6.0


@rt.compiled
def exchanged(t: Any, x: Any, u: Any, z: Any, p: Any, dx: Any) -> None:
    dx[0] = z[0] - u[0]


def test_a_helper_of_a_class_is_checked_as_a_function_of_a_model() -> None:
    class Calls(rt.Plant):
        x = rt.state("m", shape=(1,))

        def derivative(self, d: Any) -> None:
            exchanged(0.0, np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1), np.zeros(1))
            d.x[0] = 0.0

    Calls.model()
    model = rt.Model(
        "m", rt.Signals("x"), exchanged, discrete=rt.Signals("z = 5"), inputs=rt.Signals("u = 3")
    )
    out, none = np.zeros(1), np.zeros(0)
    bind(model).derivative.call(0.0, none, np.array([5.0]), np.array([3.0]), none, out)
    assert out[0] == 2.0

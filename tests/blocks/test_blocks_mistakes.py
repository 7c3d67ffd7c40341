"""Plausible mistakes with blocks: each is one clear line that names the culprit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from block_parts import flown, wired

from rtsim.blocks import (
    PID,
    Constant,
    Diagram,
    Differential,
    Equations,
    EventClock,
    Expression,
    Gain,
    Integrator,
    LevelCrossing,
    Noise,
    PeriodicSampler,
    Port,
    Product,
    SampledPID,
    Saturation,
    StateSpace,
    Sum,
    TransferFunction,
    TransportDelay,
    UnitDelay,
    Waveform,
    When,
    ZeroOrderHold,
    block,
)
from rtsim.blocks.block import Block, InputDelay, Wires
from rtsim.core.errors import ModelError, ScenarioError, ShapeError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Period
from rtsim.equations.compiling import compiled
from rtsim.equations.model import Guard, Model, Timer
from rtsim.scenario.scenario import Scenario
from rtsim.solve import Adaptive


def grows(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1.0


GROWS = Model("grows", Signals("x"), grows)
MADE: list[tuple[Callable[[Any], object], str]] = [
    (lambda _: Gain("2"), r"Gain\(gain='2'\): give one number"),  # type: ignore[arg-type]
    (lambda _: Gain(np.eye(2)), r"Gain\(gain=array\(.*give one number"),  # type: ignore[arg-type]
    (lambda _: Gain(math.nan), r"Gain\(gain=nan\): give one number"),
    (lambda _: Integrator(np.eye(2)), r"Integrator\(initial=… \[1\.0, 0\.0\]\): give one number"),
    (lambda _: Integrator(()), r"Integrator\(initial=\(\)\): give at least one number"),
    (lambda _: Integrator(high="2"), r"Integrator\(high='2'\): give one number"),  # type: ignore[arg-type]
    (lambda _: PID([1.0]), r"PID\(kp=\[1\.0\]\): give one number"),  # type: ignore[arg-type]
    (lambda _: SampledPID(period=0), "a period must be > 0 s, got 0"),
    (lambda _: Constant("1"), r"Constant\(value='1'\): give one number"),  # type: ignore[arg-type]
    (lambda _: Waveform("12", 1), r"Waveform\(samples='12'\): give one number"),  # type: ignore[arg-type]
    (lambda _: Noise(-1.0), r"Noise\(deviation=-1\.0\): give a number >= 0"),
    (lambda _: Noise(1.0, period=0), "a period must be > 0 s, got 0"),
    (lambda _: TransportDelay(-1), r"TransportDelay\(-1\): give a delay > 0 s"),
    (
        lambda _: TransportDelay(1, interpolation="linear"),
        r"interpolation='linear'\) needs samples=",
    ),
    (lambda _: TransportDelay(1, samples=1), r"TransportDelay\(samples=1\): give at least 2"),
    (lambda _: TransportDelay(1, initial="0"), r"TransportDelay\(initial='0'\)"),  # type: ignore[arg-type]
    (
        lambda rising: LevelCrossing(direction=rising),
        r"LevelCrossing\(direction='rising'\): give 1 \(rising\), -1 \(falling\) or 0",
    ),
    (lambda _: Expression("sin(x)"), r"Expression\('sin\(x\)'\): give a Python function"),  # type: ignore[arg-type]
    (lambda _: Expression(math.sin), "such as Expression.lambda x: math.sin"),
    (lambda _: StateSpace([[0, 1], [0, 0]], [1, 0, 0], [1, 0]), r"B has shape \(3,\); expected a"),
    (lambda _: StateSpace(0, [], 1), r"B has shape \(0,\); expected a row for each state"),
    (lambda _: StateSpace(np.eye(2), [1, 0], [1, 0, 0]), r"C has shape \(3,\); expected a column"),
    (lambda _: StateSpace(0, 1, 1, [1, 2]), r"D has shape \(2,\); expected 1 x 1, outputs by"),
    (lambda _: StateSpace(0, 1, 1, initial=[1, 2]), r"initial has shape \(2,\); expected a number"),
    (lambda _: Sum(3), r"Sum\(3\); give one \+ or - for each input"),  # type: ignore[arg-type]
    (lambda _: Product(2), r"Product\(2\); give one \* or /"),  # type: ignore[arg-type]
    (lambda _: TransferFunction("1", [1, 1]), r"TransferFunction\(numerator='1'\)"),
    (lambda _: TransferFunction(1, [math.nan, 1]), r"TransferFunction\(denominator=… nan\)"),
    (lambda _: StateSpace(math.nan, 1, 1), "StateSpace: A has an element that is not finite"),
    (lambda _: Differential(Diagram("d")), "got a Diagram; add a Diagram directly"),  # type: ignore[arg-type]
    (lambda _: Waveform(1.0, 1), "a Waveform needs at least 2 samples, got 1"),
    (lambda _: StateSpace("a", 1, 1), "StateSpace: A is not a matrix of numbers"),
    (lambda _: StateSpace([[0, 1]], 1, 1), r"A has shape \(1, 2\); it must be square"),
]


@pytest.mark.parametrize(("make", "words"), MADE)
def test_a_block_says_which_argument_is_wrong(make: Callable[[Any], object], words: str) -> None:
    with pytest.raises(ScenarioError, match=words) as refused:
        make("rising")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("make", [np.array, list, tuple])
def test_arrays_and_lists_stand_for_several_numbers(make: Callable[[Any], Any]) -> None:
    d = Diagram("d")
    d.add("rate", Constant(make([1.0, 2.0])))
    d.add("x", Integrator(make([3.0, 4.0])), "rate")
    d.add("late", UnitDelay(1, initial=make([5.0, 6.0])), "x")
    d.add("held", ZeroOrderHold(make([0.0, 0.0])), "late")
    recording = flown(d, 1)
    assert np.allclose(recording["d.x"][-1], [4.0, 6.0])
    held = recording.track("d").column("held")
    assert (held[len(held) // 2].tolist(), held[-1].tolist()) == ([5.0, 6.0], [3.0, 4.0])
    start: object = Integrator(np.array(2.0)).initial
    assert start == 2.0
    assert Integrator(make([2.0])).size == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Integrator, r"x is the class Integrator, not a block; write Integrator\(…\)"),
        (GROWS, r"x is a Model, not a block; write Differential\(grows\)"),
        (2.0, r"x is 2\.0, not a block; give a block of rtsim\.blocks, or a Diagram"),
    ],
)
def test_only_blocks_are_added(given: Any, words: str) -> None:
    d = Diagram("d")
    with pytest.raises(ScenarioError, match=words):
        d.add("x", given)
    with pytest.raises(ScenarioError, match="give the name first, then the block"):
        d.add(Integrator(), "x")  # type: ignore[arg-type]
    d.add("x", Integrator())
    with pytest.raises(ScenarioError, match=r"x\.u cannot be wired to 1\.0; give the name of a b"):
        d.wire(1.0, "x.u")  # type: ignore[arg-type]
    assert TransferFunction(1, [1, 1]).label == "1 / (s + 1)"


@pytest.mark.parametrize(
    ("model", "solver", "words"),
    [
        (Diagram("d"), "rk4", r"plant d is a Diagram; give its \.model\(\)"),
        (Gain(), "rk4", "plant d is a Gain; give a Model"),
        (Diagram, "rk4", "plant d is a type; give a Model"),
        (GROWS, Adaptive, r"solver of plant d is the class Adaptive; give an object: Adaptive\(\)"),
        (GROWS, "rk45", "plant d: solver rk45 is called dp54 in rtsim"),
        (GROWS, "ODE23", "plant d: solver ODE23 is called bs32 in rtsim"),
        (GROWS, "rk5", "unknown solver 'rk5'; did you mean rk4"),
    ],
)
def test_a_plant_is_a_model_and_a_solver(model: Any, solver: Any, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        Scenario("s").plant("d", model, step=1, solver=solver)


def nothing(x: float) -> None:
    x + 1.0


def sometimes(x: float) -> Any:  # noqa: RET503
    if x > 0:
        return x


def unknown(x: float) -> Any:
    return x + nowhere  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (nothing, "nothing of Expression e can end without a value; return a number"),
        (sometimes, "sometimes of Expression e can end without a value"),
        (unknown, "unknown of Expression e reads nowhere, which is not defined"),
        (lambda x: abs(y) + x, "<lambda> of Expression e reads y, which"),  # type: ignore[name-defined]  # noqa: F821
    ],
)
def test_an_expression_gives_a_value_of_what_is_known(
    function: Callable[..., Any], words: str
) -> None:
    with pytest.raises(ModelError, match=words) as refused:
        wired(("x", Integrator(), "e"), ("e", Expression(function), "x")).model()
    assert "\n" not in str(refused.value)


def test_what_is_held_already_needs_no_hold() -> None:
    d = wired(("x", Integrator(), "h"), ("pid", SampledPID(), "x"), ("h", ZeroOrderHold(), "pid"))
    with pytest.raises(ScenarioError, match=r"h\.u needs events; remove the hold, because signals"):
        d.model()
    d.blocks["h"] = PeriodicSampler(1)
    with pytest.raises(ScenarioError, match="put a ZeroOrderHold between"):
        d.model()


def test_a_block_of_ones_own_is_checked_alike() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Twice(Block):
        factor: float = 2.0

    with pytest.raises(ScenarioError, match=r"Twice\(factor='a'\): give one number"):
        Twice("a")  # type: ignore[arg-type]


class Written(Block):
    """A block with one event input ``u``, one output ``y``, and the given equations."""

    inputs, outputs = (Port("u", "event"),), (Port("y"),)

    def __init__(self, **equations: Any) -> None:
        self._equations = equations

    def equations(self, wires: Wires) -> Equations:  # noqa: ARG002
        given: dict[str, Any] = {"memory": Signals("count"), "output": "y = count"}
        return Equations(**{**given, **self._equations})


def counted(**equations: Any) -> Diagram:
    d = Diagram("d")
    d.add("clock", EventClock("1/4"))
    d.add("b", Written(**equations), "clock")
    d.add("x", Integrator(), "b")
    return d


PAIR = Signal("s", shape=(2,), initial=(1.0, 2.0))
STATE: dict[str, Any] = {"states": Signals("s = 1"), "output": "y = s", "rate": "d_s = -1.0"}
UNDECLARED: list[tuple[dict[str, Any], str]] = [
    ({"when": (When(("u",), "cuont = count + 1"),)}, r"target 'cuont' in When.*\.do of block b "),
    ({"when": (When(("u",), "cuont += 1"),)}, "target 'cuont'"),
    ({"when": (When(("u",), "if t > 1:\n    cuont = 1"),)}, "target 'cuont'"),
    ({"when": (When(("u",), "count = 1", rest="cuont = 0"),)}, r"target 'cuont' in When.*\.rest"),
    ({"when": (When(("u",), "_a = 1", then="cuont = _a"),)}, r"target 'cuont' in When.*\.then"),
    ({"when": (When(("u",), "u = 1"),)}, r"target 'u' in .*known: count"),
    ({"when": (When(("u",), "y = 1"),)}, "target 'y'"),
    ({"when": (When(("u",), "for x in range(2):\n    count += 1"),)}, "target 'x'"),
    ({"when": (When(("up",), "count = 1"),)}, r"trigger 'up' in .*did you mean u\?"),
    ({"output": "y = cuont"}, r"name 'cuont' in output of block b .*did you mean count\?"),
    ({"output": "y = _late"}, "name '_late' in output"),
    ({"output": "y = z[0]"}, "name 'z' in output"),
    ({"output": "y = half(count)"}, r"name 'half' in output.*helpers are given as functions="),
    ({"output": "y = count\ncount = 1.0"}, "target 'count' in output"),
    ({**STATE, "rate": "d_ss = 1.0"}, r"target 'd_ss' in rate.*did you mean d_s\?"),
    ({**STATE, "rate": "s = 1.0"}, "target 's' in rate"),
    (
        {**STATE, "guards": (Guard("low", -1),), "guard": "lo = s"},
        r"target 'lo' in guard.*mean low",
    ),
    ({"timers": {"tick": Timer(Period.of(1), draws=("cuont",))}}, "memory 'cuont' in draws"),
    (
        {"timers": {"tick": Timer(Period.of(1))}, "meets": {"up": "tick"}},
        "event input 'up' in meets",
    ),
    ({"timers": {"tick": Timer(Period.of(1))}, "meets": {"u": "tock"}}, "timer 'tock' in meets"),
    ({"delays": {"late": InputDelay("up", "lag", "lag")}}, "input 'up' in delay late"),
    ({"delays": {"late": InputDelay("u", "lag", "lag")}}, "parameter 'lag' in delay late"),
]


@pytest.mark.parametrize(("equations", "words"), UNDECLARED)
def test_equations_use_only_names_that_the_block_declares(
    equations: dict[str, Any], words: str
) -> None:
    with pytest.raises(UnknownName, match=words):
        counted(**equations).model()


FORMS: list[tuple[dict[str, Any], str]] = [
    (
        {"do": "count == count + 1"},
        r"\.do of block b \(Written\): cannot use 'count == count \+ 1'",
    ),
    ({"rest": "count == 0"}, r"\.rest of block b .*with one ="),
    ({"then": "count == 0"}, r"\.then of block b .*with one ="),
    ({"do": "if t > 1:\n    count == 2"}, "cannot use 'count == 2': the statement has no effect"),
    ({"do": "count"}, "no effect"),
    ({"do": "def cuont():\n    pass"}, r"cannot use 'def cuont\(\):': only assignments"),
    ({"do": "class cuont:\n    pass"}, "only assignments"),
    ({"do": "import math as cuont"}, "only assignments"),
    ({"do": "from math import pi as cuont"}, "only assignments"),
    ({"do": "match count:\n    case cuont:\n        pass"}, "only assignments"),
    ({"do": "with count as cuont:\n    pass"}, "only assignments"),
    ({"do": "try:\n    pass\nexcept KeyError as cuont:\n    pass"}, "only assignments"),
    ({"do": "if t > 1:\n    import math as cuont"}, "only assignments"),
    ({"do": "count = 1.0\nreturn"}, "cannot use 'return'"),
    ({"do": "global cuont"}, "only assignments"),
    ({"do": "del count"}, "only assignments"),
    ({"do": "count = (lambda cuont: 1.0)(2.0)"}, "lambda is not allowed"),
    ({"do": "math.pi = 3.0"}, "the target is no signal"),
    ({"do": "count[0][0] = 3.0"}, "the target is no signal"),
    ({"do": "count = (cuont := 1.0)"}, "unknown target 'cuont'"),
    ({"do": "count = = 1.0"}, r"\.do of block b \(Written\): cannot read the equation"),
    ({"output": "if count > 3: y = count"}, r"output of block b .*NAME = A if CONDITION else"),
    ({"output": "for _i in range(2):\n    y = count"}, "output of block b .*branch is not allowed"),
    ({"output": "y == count"}, "output of block b .*no effect"),
    ({**STATE, "rate": "if s > 0: d_s = 1.0"}, "rate of block b .*branch is not allowed"),
    ({**STATE, "guards": (Guard("low", -1),), "guard": "if s > 0: low = s"}, "guard of block b"),
    ({"memory": Signals("_count"), "output": "y = _count"}, "block b .*declares '_count'.*'count'"),
    ({**STATE, "states": Signals("s = 1", "_v"), "rate": "d_s = 1.0"}, "declares '_v'"),
    ({"parameters": Signals("_k")}, "declares '_k'"),
    ({**STATE, "guards": (Guard("_low", -1),), "guard": "_low = s"}, "declares '_low'"),
]


@pytest.mark.parametrize(("equations", "words"), FORMS)
def test_a_statement_that_would_be_lost_names_its_block_and_field(
    equations: dict[str, Any], words: str
) -> None:
    texts = {name: equations[name] for name in ("do", "rest", "then") if name in equations}
    others = {name: value for name, value in equations.items() if name not in texts}
    if texts:
        others["when"] = (When(("u",), **{"do": "count = count + 1", **texts}),)
    with pytest.raises((ModelError, UnknownName), match=words):
        counted(**others).model()


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("y = s[2]", r"block b \(Written\): its equations use s\[2\], but s has 2 elements"),
        ("y = s[-1]", r"use s\[-1\], but s has 2 elements; write an index from 0 to 1"),
        ("y = s", "use s, but s has 2 elements"),
        ("y = np.sum(s[1:])", r"use s\[1:\]; write s\[:\] for all elements"),
        ("y[1] = 1.0", r"use y\[1\], but y has 1 elements"),
        ("y = states[0] + u[int(t)]", "use u with a computed index"),
    ],
)
def test_an_index_selects_an_element_of_the_blocks_own_signal(output: str, words: str) -> None:
    own = {"states": Signals(PAIR), "rate": "d_s[0] = 0.0\nd_s[1] = 0.0"}
    with pytest.raises(ModelError, match=words):
        counted(output=output, **own).model()


@compiled
def half(value: float) -> float:
    return 0.5 * value


def test_temporaries_loops_and_helpers_are_allowed_in_equations() -> None:
    do = "for _i in range(2):\n    _step = half(count)\n    count = count + max(1.0, 4.0 * _step)"
    d = counted(when=(When(("u",), do),), functions={"half": half})
    assert flown(d, 1)["d.b"][-1] == 3.0**9  # 1, then times 3 nine times: two passes at 5 events


# -- diagrams that cannot be meant: what is refused, and how it is said ----------------------------


LOOPS = [
    (
        (("a", Gain(), "b"), ("b", Gain(), "c"), ("c", Gain(), "a"), ("x", Integrator(), "a")),
        r"algebraic loop: (b\.y -> a\.y -> c\.y|c\.y -> b\.y -> a\.y|a\.y -> c\.y -> b\.y)",
    ),
    (
        (
            ("error", Sum("+-"), "r", "plant"),
            ("r", Constant()),
            ("plant", TransferFunction([1, 1], [1, 2]), "error"),
        ),
        r"algebraic loop: (error\.y -> plant\.y -> error\.y|plant\.y -> error\.y -> plant\.y)",
    ),
    (
        (
            ("error", Sum("+-"), "r", "sensor"),
            ("r", Constant()),
            ("plant", TransferFunction([1, 1], [1, 2]), "error"),
            ("sensor", StateSpace(-1, 1, 1, 1), "plant"),
        ),
        r"algebraic loop: (error\.y -> plant\.y -> sensor\.y|plant\.y -> sensor\.y -> error\.y"
        r"|sensor\.y -> error\.y -> plant\.y)",
    ),
    (
        (
            ("s", PeriodicSampler(1), "x"),
            ("x", Integrator(), "h"),
            ("h", ZeroOrderHold(), "sum"),
            ("sum", Sum(), "s", "g"),
            ("g", Gain(), "sum"),
        ),
        r"algebraic loop: (sum\.y -> g\.y|g\.y -> sum\.y)",
    ),
]


@pytest.mark.parametrize(("parts", "words"), LOOPS)
def test_an_algebraic_loop_is_named_with_its_remedy(
    parts: tuple[tuple[object, ...], ...], words: str
) -> None:
    with pytest.raises(ScenarioError, match=words + ".*Insert an Integrator"):
        wired(*parts).model()


def test_a_loop_through_what_has_no_feedthrough_is_none() -> None:
    """Feedthrough is read off the equations: this one's numerator is of lower degree."""
    wired(
        ("error", Sum("+-"), "r", "plant"),
        ("r", Constant()),
        ("plant", TransferFunction([1], [1, 2]), "error"),
    ).model()


REFUSED: list[tuple[tuple[tuple[object, ...], ...], str]] = [
    (
        (("x", Integrator()),),
        r"not wired in diagram d: x\.u; wire each of these inputs to an output",
    ),
    ((("x", Integrator(), "y"),), r"unknown block or input 'y' in diagram d"),
    ((("x", Integrator(), "x.z"),), r"unknown output 'z' in x"),
    ((("x", Integrator(), "x", "x"),), r"x\.y is a signal, but x\.reset needs events; put a Per"),
    (
        (("x", Integrator(), "s"), ("s", PeriodicSampler(1), "x")),
        r"s\.y is an event, but x\.u needs a signal; put a ZeroOrderHold between",
    ),
    (
        (("x", Integrator((0.0, 0.0)), "c"), ("c", Constant(1.0))),
        r"c\.y has size 1, but x\.u needs size 2",
    ),
    (
        (("x", Integrator(unit="m"), "v"), ("v", Constant(1.0, unit="m/s^2"))),
        r"v\.y is in m/s\^2, but x\.u needs m/s; wires do not convert",
    ),
    (
        (
            ("a", Constant(1.0, unit="m")),
            ("b", Constant(1.0, unit="s")),
            ("sum", Sum(), "a", "b"),
            ("x", Integrator(), "sum"),
        ),
        r"sum cannot add m and s \(u2\)",
    ),
    (
        (
            ("a", Constant(1.0)),
            ("b", Constant((1.0, 2.0))),
            ("sum", Sum(), "a", "b"),
            ("x", Integrator(), "a"),
        ),
        r"inputs of sum have different sizes \(u1 1, u2 2\)",
    ),
    ((("a", Constant(1.0)),), "diagram d has no continuous state"),
    (
        (("c", Constant()), ("x", StateSpace(-1, 1, 1, 1), "c", "e"), ("e", LevelCrossing(), "c")),
        r"x has D != 0, so an impulse at its input makes its output infinite",
    ),
]


@pytest.mark.parametrize(("parts", "words"), REFUSED)
def test_what_does_not_fit_is_refused_by_name(
    parts: tuple[tuple[object, ...], ...], words: str
) -> None:
    with pytest.raises(ScenarioError, match=words):
        wired(*parts).model()


def test_wires_are_checked_as_they_are_drawn() -> None:
    d = wired(("x", Integrator(), "g"), ("g", Gain(), "x"))
    with pytest.raises(ScenarioError, match=r"g\.u is wired twice: to x and to x; add the two"):
        d.wire("x", "g")
    with pytest.raises(UnknownName, match="unknown block 'h' in diagram d; known: x, g"):
        d.wire("x", "h")
    with pytest.raises(UnknownName, match="unknown input 'v' in g"):
        d.wire("x", "g.v")
    with pytest.raises(ScenarioError, match="leads to no input; name at least one input"):
        d.wire("x")
    with pytest.raises(ScenarioError, match="diagram d already has g; use another name"):
        d.add("g", Gain())
    with pytest.raises(ScenarioError, match="diagram d already has g; use another name"):
        d.input("g")
    with pytest.raises(ScenarioError, match=r"y has 1 inputs \(u\), but 2 sources are given"):
        d.add("y", Gain(), "x", "g")
    with pytest.raises(ScenarioError, match="not an identifier"):
        d.add("a b", Gain())
    d.output("g")
    with pytest.raises(ScenarioError, match="output g of diagram d is declared twice"):
        d.output("g")


def test_what_two_diagrams_hide_is_found() -> None:
    inner = Diagram("inner")
    inner.input("a")
    inner.add("g", Gain(), "a")
    inner.output("g", name="b")
    outer = Diagram("outer")
    outer.add("one", inner)
    outer.add("x", Integrator(), "one.b")
    with pytest.raises(ScenarioError, match=r"not wired in diagram outer: one\.g\.u \(by a\)"):
        outer.model()
    outer.wire("one.b", "one.a")
    with pytest.raises(ScenarioError, match=r"algebraic loop: one\.g\.y -> one\.g\.y"):
        outer.model()
    through = Diagram("through")
    through.input("a")
    through.output("a", name="b")
    outer = Diagram("outer")
    outer.add("x", Integrator(), "t.b")
    outer.add("t", through, "t.b")
    with pytest.raises(ScenarioError, match="leads back to"):
        outer.model()
    outer.add("t_x", Integrator(), "x")
    nested = Diagram("nested")
    nested.add("x", Integrator(1.0), "x")
    outer = Diagram("outer")
    outer.add("t", nested)
    outer.add("t_x", Integrator(), "t_x")
    with pytest.raises(ScenarioError, match=r"t\.x and t_x would both be named t_x"):
        outer.model()


def test_a_diagram_within_declares_its_inputs() -> None:
    inner = Diagram("inner")
    inner.input("a [m]")
    inner.add("x", Integrator(), "a")
    for given, words in (
        (Constant(1.0, unit="s"), r"c\.y is in s, but one\.a needs m; wires do not"),
        (Constant((1.0, 2.0)), r"c\.y has size 2, but one\.(x\.u|a) needs size 1"),
    ):
        outer = Diagram("outer")
        outer.add("one", inner, "c")
        outer.add("c", given)
        with pytest.raises(ScenarioError, match=words):
            outer.model()


def test_events_are_no_outputs() -> None:
    d = wired(("x", Integrator(), "x"), ("s", PeriodicSampler(1), "x"))
    d.output("s")
    with pytest.raises(
        ScenarioError, match="output s of diagram d is an event, but an output must"
    ):
        d.model()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sum(""),
        lambda: Product("+"),
        lambda: Saturation(1.0, 1.0),
        lambda: Expression(lambda t: t),
        lambda: TransferFunction([1, 0, 0], [1, 1]),
        lambda: TransferFunction([1], [1]),
        lambda: Integrator(2.0, high=1.0),
        lambda: Integrator((0.0, 0.0), high=1.0),
        lambda: Gain(1.0, unit="m//s"),
    ],
)
def test_blocks_refuse_what_cannot_be_meant(make: object) -> None:
    with pytest.raises(ScenarioError):
        wired(("x", Integrator(unit="m"), "g"), ("g", make(), "x")).model()  # type: ignore[operator]


def test_sizes_have_a_kind_of_error() -> None:
    with pytest.raises(ShapeError):
        wired(("x", Integrator((0.0, 0.0)), "c"), ("c", Constant(1.0))).model()


@pytest.mark.parametrize(
    ("a", "b", "power", "product"),
    [
        ("m", "s", -1, "m/s"),
        ("N", "kg", -1, "m/s^2"),
        ("N m", "rad", 1, "kg m^2/s^2"),
        ("V", "A", 1, "kg m^2/s^3"),
        ("m^0.5", "m", -1, "1/m^0.5"),
        ("m", "m", -1, "1"),
        ("1", "m", 1, "1"),
    ],
)
def test_units_multiply(a: str, b: str, power: int, product: str) -> None:
    assert block.times(a, b, power) == product
    assert block.same("W", "J/s")
    assert not block.same("deg", "rad")

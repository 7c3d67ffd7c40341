"""Diagrams that cannot be meant: what is refused, and how it is said."""

from __future__ import annotations

import pytest
from block_parts import wired

from rtsim.blocks import (
    Constant,
    Diagram,
    Expression,
    Gain,
    Integrator,
    LevelCrossing,
    PeriodicSampler,
    Product,
    Saturation,
    StateSpace,
    Sum,
    TransferFunction,
    ZeroOrderHold,
    block,
)
from rtsim.core.errors import ScenarioError, ShapeError, UnknownName

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

"""The language of requirements: what is accepted, how it binds, and where an error points."""

from __future__ import annotations

import pytest

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.requirements.formula import checked
from rtsim.requirements.language import FormulaError, Node, parse

S = 1_000_000_000


def written(node: Node) -> str:
    """The tree as a text with all parentheses."""
    if node.kind == "number":
        return f"{node.value:g}" + ("" if node.name == "1" else f" [{node.name}]")
    if node.kind == "signal":
        return node.name
    inside = [written(child) for child in node.children]
    inside += [f"{name}={written(value)}" for name, value in node.keywords]
    window = "" if node.window is None else f"{node.window}"
    return f"{node.name or node.kind}{window}({', '.join(inside)})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.x < 1", "<(a.x, 1)"),
        ("1 < a.x <= 2", "and(<(1, a.x), <=(a.x, 2))"),
        ("always a.x < 1", "always(0, None)(<(a.x, 1))"),
        ("always a.x < 1 and a.y < 2", "and(always(0, None)(<(a.x, 1)), <(a.y, 2))"),
        ("G[1,2] F a.x < 1", f"always({S}, {2 * S})(eventually(0, None)(<(a.x, 1)))"),
        ("eventually[5:20ms] a.x > 0", "eventually(5000000, 20000000)(>(a.x, 0))"),
        ("eventually[5ms, 2s] a.x > 0", f"eventually(5000000, {2 * S})(>(a.x, 0))"),
        ("once[1e-3, end] a.x > 0", "once(1000000, None)(>(a.x, 0))"),
        ("historically[0, 1.5min] a.x > 0", f"historically(0, {90 * S})(>(a.x, 0))"),
        ("a.x < 1 until[0, 2] b.y > 3", f"until(0, {2 * S})(<(a.x, 1), >(b.y, 3))"),
        ("not a.x < 1 since b.y > 3", "since(0, None)(not(<(a.x, 1)), >(b.y, 3))"),
        ("a.p > 0 -> a.q > 0 -> a.r > 0", "implies(>(a.p, 0), implies(>(a.q, 0), >(a.r, 0)))"),
        ("a.p > 0 or a.q > 0 and a.r > 0", "or(>(a.p, 0), and(>(a.q, 0), >(a.r, 0)))"),
        ("a.p > 0 | a.q > 0 & !a.r > 0", "or(>(a.p, 0), and(>(a.q, 0), not(>(a.r, 0))))"),
        ("a.p > 0 implies a.q > 0 iff a.r > 0", "iff(implies(>(a.p, 0), >(a.q, 0)), >(a.r, 0))"),
        ("a.p > 0 xor a.q > 0", "xor(>(a.p, 0), >(a.q, 0))"),
        ("a.x + 2*a.y - -a.z/4 < 1",
         "<(subtract(add(a.x, multiply(2, a.y)), divide(negative(a.z), 4)), 1)"),
        ("a.x ** 2 ** 3 < 1", "<(power(a.x, power(2, 3)), 1)"),
        ("-a.x ^ 2 < 1", "<(negative(power(a.x, 2)), 1)"),
        ("abs(a.x - b.y) < 20 ft", "<(abs(subtract(a.x, b.y)), 20 [ft])"),
        ("a.w < 2 deg/s", "<(a.w, 2 [deg/s])"),
        ("a.w < 2deg/s and a.x < 3 [kg m^2]", "and(<(a.w, 2 [deg/s]), <(a.x, 3 [kg m^2]))"),
        ("1 m / a.x < 2", "<(divide(1 [m], a.x), 2)"),
        ("a.position[0] < 1", "<(a.position_0, 1)"),
        ("a.matrix[0][2] < 1", "<(a.matrix_0_2, 1)"),
        ("Gain.x < 1 and Frank.y < 2", "and(<(Gain.x, 1), <(Frank.y, 2))"),
        ("min(a.x, a.y) < .5e1", "<(min(a.x, a.y), 5)"),
        ("true until[1, 1] a.x < 1", f"until({S}, {S})(true(), <(a.x, 1))"),
        ("settling_time(a.x, target=1, band=0.05) < 3",
         "<(settling_time(a.x, target=1, band=0.05), 3)"),
    ],
)  # fmt: skip
def test_a_formula_is_read_as_documented(text: str, expected: str) -> None:
    assert written(parse(text)) == expected


UNITS = {
    "f16.altitude": "ft", "f16.speed": "ft/s", "f16.roll": "rad", "cart.x": "m", "cart.v": "m/s",
    "cart.n": "1",
}  # fmt: skip


def unit_of(name: str) -> str:
    if name not in UNITS:
        raise UnknownName("signal", name, UNITS)
    return UNITS[name]


@pytest.mark.parametrize(
    "text",
    [
        "cart.x < 1",
        "cart.x < 1 m",
        "abs(cart.x - 2 m) < 1",
        "cart.n < cart.x",
        "cart.x / cart.v < 3 s",
        "cart.v ** 2 < 2 m^2/s^2",
        "sqrt(cart.v ** 2) < 2 m/s",
        "2 * cart.x < 1 m",
        "hypot(cart.x, 1 m) < max(cart.x, 2)",
        "sin(f16.roll) < 1",
        "cart.x * cart.v < 1 m^2/s",
        "cart.x * cart.x < 3 m**2",
        "cart.x * cart.x < 3 m ^ 2",
        "atan2(cart.x, 2 m) < 1 rad",
        "cart.x ** -1 < 2 m^-1",
        "exp(cart.n) < 3",
    ],
)
def test_units_that_agree_are_accepted(text: str) -> None:
    checked(text, unit_of)


WRONG = [
    # text, place of the caret, words of the message
    ("", None, "the formula is empty"),
    ("always", 6, "the formula ends here; expected a signal or a number"),
    ("cart.x <", 8, "the formula ends here"),
    ("cart.x < 1)", 10, "')' is not possible here"),
    ("cart.x $ 1", 7, "'$' is not possible here; expected one of: a comparison such as <"),
    ("cart.x < 1 or cart.v cart.v > 1", 21, "'cart.v' is not possible here; expected one of"),
    ("(cart.x < 1", 0, "the ( here has no )"),
    ("((cart.x < 1) and cart.v > 2", 0, "the ( here has no )"),
    ("allways cart.x < 1", 0, "unknown word 'allways'; did you mean always?"),
    ("Alway[0,5] cart.x < 1", 0, "unknown word 'Alway'; did you mean always?"),
    ("cart.x < 1 impies cart.v < 1", 11, "unknown word 'impies'; did you mean implies?"),
    ("cart.x => 1", 7, "write >= for a comparison, or implies"),
    ("cart.x = 1", 7, "write == to compare"),
    ("|cart.x| < 1", 0, "write abs(...)"),
    ("always(0, 5) cart.x < 1", 0, "write a window in brackets, as in always[0, 5]"),
    ("always[5] cart.x < 1", 6, "a window has two times"),
    ("always[0, 5 cart.x < 1", 6, "a window has two times in brackets"),
    ("cart.x < 1,2", 9, "write a decimal point"),
    ("cart.x < 1 m3/s", 11, "write a power as m^3"),
    ("always[3, 1] cart.x < 1", 6, "the last time of the window is before its first time"),
    ("always[0, 0.1ns] cart.x < 1", 10, "a whole number of ns"),
    ("always[end, 3] cart.x < 1", 6, "first time of a window must be a number"),
    ("always cart.x", 7, "cart.x is a number, but a condition is needed"),
    ("(cart.x < 1) + 2 < 3", 1, "cart.x < 1 is a condition, but a number is needed"),
    ("not cart.x", 4, "is a number, but a condition is needed"),
    ("cart.y < 1", 0, "unknown signal 'cart.y'; did you mean cart."),
    ("cart.x < 1 ft", 0, "cannot compare cart.x in m and 1 ft in ft"),
    ("cart.x + cart.v < 1", 0, "cannot add cart.x in m and cart.v in m s^-1"),
    ("max(cart.x, cart.v) < 1", 0, "cannot max cart.x in m"),
    ("cart.x * cart.v < 1 m", 0, "in m^2 s^-1 and 1 m in m"),
    ("cart.x * cart.x < 3 m**3", 0, "in m^2 and 3 m**3 in m^3"),
    ("atan2(cart.x, cart.v) < 1", 0, "cannot atan2 cart.x in m and cart.v"),
    ("atan2(cart.x, 2 m) < 5 deg", 0, "in rad and 5 deg in deg"),
    ("sin(cart.x) < 1", 0, "sin needs rad, not m"),
    ("sin(f16.roll) < 1 ft", 0, "in no unit and 1 ft in ft"),
    ("exp(cart.x) < 8", 0, "exp needs a number without a unit, not m"),
    ("cart.x ** cart.n < 3", 10, "the exponent of a quantity with a unit must be a number"),
    ("cart.x ** -1 < 3 m", 0, "in m^-1 and 3 m in m"),
    ("1 < 2", 0, "the formula has no signal"),
    ("cart.x < 1e999", 9, "1e999 is too large"),
    ("clamp(cart.x) < 1", 0, "unknown function clamp; known: abs"),
    ("abs(cart.x, cart.v) < 1", 0, "abs takes 1 value"),
    ("cart.x < 1 [m//s]", 9, "cannot read unit 'm//s'"),
]


@pytest.mark.parametrize(("text", "at", "says"), WRONG)
def test_an_error_points_to_its_place(text: str, at: int | None, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        checked(text, unit_of)
    problem, *shown = str(caught.value).splitlines()
    assert says in problem
    if at is not None:
        assert isinstance(caught.value, FormulaError)
        assert shown == [f"    {text}", f"    {' ' * at}^"]

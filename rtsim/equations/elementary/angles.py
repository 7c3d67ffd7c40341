"""Compute sines, tangents and their inverse functions.

The methods are those of W. Cody and W. Waite, Software Manual for the Elementary Functions, 1980,
and of fdlibm (Sun Microsystems, 1993). ``python -m tools.minimax`` computes the coefficients.

Arguments of ``sin``, ``cos`` and ``tan`` of at least :data:`FAR` are rare, and need a branch: their
angle is reduced exactly, with M. Payne and R. Hanek, Radian Reduction for Trigonometric Functions,
1983.
"""

from __future__ import annotations

import math

import numpy as np

from rtsim.equations.compiling import in_both
from rtsim.equations.elementary.operations import (
    ROUND,
    SIGN,
    bits,
    chosen,
    lost_in_square,
    number,
    quotient,
    root,
    signed,
    upper,
)

FAR = 268435456.0
"""The magnitude (rad) from which an angle is reduced in a branch: 2**28."""

_TWO_OVER_PI = 0.6366197723675814
_PARTS = (
    float.fromhex("0x1.921fb5p+0"),
    float.fromhex("0x1.110b46p-26"),
    float.fromhex("0x1.1a626p-54"),
    float.fromhex("0x1.98a2ep-77"),
    float.fromhex("0x1.b839a252049c1p-104"),
)
"""pi/2 in parts. The first four have 25 bits, so that their products with 2**28 are exact."""
_P1, _P2, _P3, _P4, _P5 = _PARTS
_BASE = 2**26
_DIGITS = np.array(
    [
        0, 0, 42722829, 48555073, 21659401, 56087029, 13858563, 28715353, 38736100, 4324945,
        26128250, 62674459, 29957006, 37899730, 58726692, 49193117, 6588223, 35515164, 46442140,
        65964067, 24988590, 54822121, 41009306, 54917092, 5137525, 37323603, 15192690, 4585659,
        58608142, 52426903, 67074070, 25231090, 63202006, 34237727, 28629499, 15891632, 40752081,
        37709470, 25143477, 55737260, 33225084, 24853767, 15195689, 19476134, 50255852, 18845021,
        2185228, 50622407, 47901436,
    ],
    dtype=np.int64,
)  # fmt: skip
"""The digits of 2/pi to the base 2**26, after two zeros."""
_PLACES = 7
"""The number of digits of a fraction of pi/2: 61 bits can be zeros (J.-M. Muller, Elementary
Functions, 2016, section 11.3), and 106 bits are the result.
"""
_LAST = 2.0 ** (-26 * _PLACES)

_SMALLEST = 2.2250738585072014e-308
_HALF, _HALF_LOW = 1.5707963267948966, 6.123233995736766e-17
_QUARTER, _QUARTER_LOW = 0.7853981633974483, 3.061616997868383e-17
_THREE, _THREE_LOW = 2.356194490192345, 9.184850993605148e-17
_PI, _PI_LOW = 3.141592653589793, 1.2246467991473532e-16


def _far(x: float) -> tuple[float, float, int]:
    """Return ``x`` >= FAR reduced to [-pi/4, pi/4], in two parts, and the number of its quadrant.

    The digits of ``x`` times 2/pi are computed from the last one on. Each digit is between
    -2**25 and 2**25, so that the digits after the point are the fraction nearest to zero.
    """
    word = bits(x)
    whole, power = (word & 0xFFFFFFFFFFFFF) | 0x10000000000000, (word >> 52) - 1075
    at = power // 26
    shift, mask = power - 26 * at, _BASE - 1
    value = (whole & mask) << shift
    first = value & mask
    value = (value >> 26) + (((whole >> 26) & mask) << shift)
    second = value & mask
    value = (value >> 26) + ((whole >> 52) << shift)
    third, fourth = value & mask, value >> 26
    high, low, weight, carry, total = 0.0, 0.0, _LAST, 0, 0
    at += _PLACES + 1
    for _ in range(_PLACES + 1):
        total = carry + first * int(_DIGITS[at]) + second * int(_DIGITS[at + 1])
        total += third * int(_DIGITS[at + 2]) + fourth * int(_DIGITS[at + 3])
        if weight == 1.0:
            break
        carry = (total + (_BASE >> 1)) >> 26
        term = float(total - (carry << 26)) * weight
        added = term + high
        low += (term - added) + high
        high = added
        weight *= float(_BASE)
        at -= 1
    angle = high * _HALF
    head, half = upper(high), upper(_HALF)
    tail, rest = high - head, _HALF - half
    off = ((head * half - angle) + head * rest + tail * half) + tail * rest
    off += high * _HALF_LOW + low * _HALF
    result = angle + off
    return result + (x - x), (angle - result) + off, total & 3


in_both(_far, inlined=False)


@in_both
def _near(x: float) -> tuple[float, float, int]:
    """Return ``x`` from 0 to FAR as :func:`_far` does."""
    turned = x * _TWO_OVER_PI + ROUND
    n = turned - ROUND
    # Each difference is exact up to the third product; then both parts are kept.
    a = (x - n * _P1) - n * _P2
    w = n * _P3
    b = a - w
    low = (a - b) - w
    w = n * _P4
    c = b - w
    low = (low + ((b - c) - w)) - n * _P5
    high = c + low
    low = (c - high) + low
    return high, low, bits(turned) & 3


@in_both
def _reduced(x: float) -> tuple[float, float, int]:
    """Return an angle ``x`` >= 0 reduced to [-pi/4, pi/4], in two parts, and its quadrant."""
    if x < FAR:
        return _near(x)
    return _far(x)


@in_both
def _sine(x: float, low: float, z: float) -> float:
    """Return the sine of ``x + low``, less ``x``."""
    w = z * z
    p = (-0.1666666666666663 + z * 0.008333333333321868) + w * (
        (-0.00019841269829352792 + z * 2.7557313528102014e-06)
        + w * (-2.505073161118843e-08 + z * 1.5895213620223552e-10)
    )
    return (z * x) * p + (low - 0.5 * z * low)


@in_both
def _cosine(x: float, low: float, z: float) -> tuple[float, float]:
    """Return the cosine of ``x + low`` in two parts."""
    w = z * z
    p = (0.04166666666666659 + z * -0.0013888888888872236) + w * (
        (2.4801587288327912e-05 + z * -2.7557314024727727e-07)
        + w * (2.087567941522407e-09 + z * -1.1357406736362385e-11)
    )
    half = 0.5 * z
    first = 1.0 - half
    low = x * low + 0.5 * lost_in_square(x, z)
    return first, ((1.0 - first) - half) + (w * p - low)


@in_both
def _sine_of(high: float, low: float, quadrant: int, x: float) -> float:
    """Return the sine of a reduced angle, with the sign of ``x``."""
    z = high * high
    one, rest = _cosine(high, low, z)
    value = chosen(quadrant & 1 != 0, one + rest, high + _sine(high, low, z))
    return number(bits(value) ^ ((quadrant & 2) << 62) ^ (bits(x) & SIGN))


@in_both
def sin(x: float) -> float:
    """Return the sine of ``x`` (rad)."""
    high, low, quadrant = _reduced(abs(x))
    return _sine_of(high, low, quadrant, x)


@in_both
def cos(x: float) -> float:
    """Return the cosine of ``x`` (rad)."""
    high, low, quadrant = _reduced(abs(x))
    return _sine_of(high, low, quadrant + 1, 1.0)


@in_both
def tan(x: float) -> float:
    """Return the tangent of ``x`` (rad)."""
    high, low, quadrant = _reduced(abs(x))
    z = high * high
    rest = _sine(high, low, z)
    sine = high + rest
    sine_low = (high - sine) + rest
    first, rest = _cosine(high, low, z)
    cosine = first + rest
    cosine_low = (first - cosine) + rest
    odd = quadrant & 1 != 0
    above, above_low = chosen(odd, cosine, sine), chosen(odd, cosine_low, sine_low)
    below, below_low = chosen(odd, sine, cosine), chosen(odd, sine_low, cosine_low)
    first, rest = quotient(above, above_low, below, below_low)
    return number(bits(first + rest) ^ ((quadrant & 1) << 63) ^ (bits(x) & SIGN))


@in_both
def _direction(large: float, small: float, swapped: bool, y: float, x: float) -> float:
    """Return the angle of a point, given the larger and the smaller of its distances."""
    # Near the diagonal, the angle from the diagonal is computed.
    steep = small > large * 0.41421356237309503
    less, more = large - small, large + small
    less_low, more_low = (large - less) - small, (large - more) + small
    above, above_low = chosen(steep, -less, small), chosen(steep, -less_low, 0.0)
    below, below_low = chosen(steep, more, large), chosen(steep, more_low, 0.0)
    first, rest = quotient(above, above_low, below, below_low)
    q = first + rest
    z = q * q
    rest += (q * z) * _arctangent(z)
    # The angle is one of 0, pi/4, pi/2, 3/4 pi and pi, plus or minus the angle found.
    side = signed(1.0, x)
    back = side < 0.0
    base = chosen(
        steep,
        chosen(back, _THREE, _QUARTER),
        chosen(swapped, _HALF, chosen(back, _PI, 0.0)),
    )
    low = chosen(
        steep,
        chosen(back, _THREE_LOW, _QUARTER_LOW),
        chosen(swapped, _HALF_LOW, chosen(back, _PI_LOW, 0.0)),
    )
    side = chosen(swapped, -side, side)
    first, rest = first * side, rest * side
    angle = base + first
    return signed(angle + (((base - angle) + first) + (low + rest)), y)


@in_both
def atan2(y: float, x: float) -> float:
    """Return the angle (rad) of the point ``(x, y)``, from -pi to pi."""
    across, up = abs(x), abs(y)
    swapped = up > across
    large, small = chosen(swapped, up, across), chosen(swapped, across, up)
    if (large > _SMALL) & (large < _LARGE) & ((small > _TINY) | (small == 0.0)):
        return _direction(large, small, swapped, y, x)
    return _atan2_far(y, x)


_TINY, _SMALL, _LARGE = 2.0**-900, 2.0**-500, 2.0**900


def _atan2_far(y: float, x: float) -> float:
    across, up = abs(x), abs(y)
    swapped = up > across
    large, small = chosen(swapped, up, across), chosen(swapped, across, up)
    infinite = large == math.inf
    small = chosen(infinite, chosen(small == math.inf, 1.0, small * 0.0), small)
    large = chosen(infinite | (large == 0.0), 1.0, large)
    factor = chosen(large > 1.0, 2.0**-200, 2.0**500)
    factor = chosen(large == 1.0, 1.0, factor)
    found = _direction(large * factor, small * factor, swapped, y, x)
    slope = small / large
    flat = (slope < 2.0**-60) & (not swapped) & (signed(1.0, x) > 0.0)
    return chosen(flat, signed(slope, y), found)


in_both(_atan2_far, inlined=False)


@in_both
def _arctangent(z: float) -> float:
    w = z * z
    v = w * w
    return (
        (-0.333333333333332 + z * 0.19999999999953666)
        + w * (-0.14285714280204181 + z * 0.11111110783820126)
        + v
        * (
            (-0.09090897767206114 + z * 0.07692060363714581)
            + w * (-0.06663105475866124 + z * 0.058478975344500805)
            + v * ((-0.05039331467065536 + z * 0.03806497124420517) + w * -0.017907361850235115)
        )
    )


@in_both
def atan(x: float) -> float:
    """Return the angle (rad) whose tangent is ``x``, from -pi/2 to pi/2."""
    return signed(atan2(abs(x), 1.0), x)


@in_both
def _arcsine(z: float) -> float:
    """Return ``(asin(x) - x) / x**3`` for ``z``, the square of ``x``, up to 0.25."""
    w = z * z
    v = w * w
    return (
        (0.1666666666666666 + z * 0.07500000000002544)
        + w * (0.044642857139676334 + z * 0.030381944645265786)
        + v
        * (
            (0.02237215158542862 + z * 0.017352945561023493)
            + w * (0.013961871348240897 + z * 0.011585984046681505)
            + v
            * (
                (0.009481994998174014 + z * 0.010019081572188428)
                + w * (0.0006513353850366733 + z * 0.02489324027930259)
                + v * (-0.026234931869900766 + z * 0.03369258086386568)
            )
        )
    )


@in_both
def _half_arc(x: float) -> tuple[float, float]:
    """Return half the arccosine of ``x`` >= 0.5 in two parts."""
    z = 0.5 * (1.0 - x)
    s = root(z)
    head = upper(s)
    tail = s - head
    off = ((z - head * head) - 2.0 * head * tail) - tail * tail
    off /= 2.0 * s + _SMALLEST  # which changes no other divisor than 0
    return s, off + (s * z) * _arcsine(z)


@in_both
def asin(x: float) -> float:
    """Return the angle (rad) whose sine is ``x``, from -pi/2 to pi/2."""
    size = abs(x)
    if size > 0.5:
        s, rest = _half_arc(size)
        first = _HALF - 2.0 * s
        return signed(first + (((_HALF - first) - 2.0 * s) + (_HALF_LOW - 2.0 * rest)), x)
    z = x * x
    return x + (x * z) * _arcsine(z)


@in_both
def acos(x: float) -> float:
    """Return the angle (rad) whose cosine is ``x``, from 0 to pi."""
    size = abs(x)
    if size > 0.5:
        s, rest = _half_arc(size)
        back = x < 0.0
        base, low = chosen(back, _PI, 0.0), chosen(back, _PI_LOW, 0.0)
        twice = chosen(back, -2.0, 2.0)
        s, rest = s * twice, rest * twice
    else:
        z = x * x
        base, low = _HALF, _HALF_LOW
        s, rest = -x, -(x * z) * _arcsine(z)
    first = base + s
    return first + (((base - first) + s) + (low + rest))

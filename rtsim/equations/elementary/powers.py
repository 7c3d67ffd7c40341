"""Compute exponential functions, logarithms, powers, hyperbolic functions and lengths.

The methods are those of W. Cody and W. Waite, Software Manual for the Elementary Functions, 1980,
and of fdlibm (Sun Microsystems, 1993). ``python -m tools.minimax`` computes the coefficients.
"""

from __future__ import annotations

import math

import numpy as np

from rtsim.equations.compiling import in_both
from rtsim.equations.elementary import tables
from rtsim.equations.elementary.operations import (
    ROUND,
    ROUND_BITS,
    as_float,
    bits,
    chosen,
    floored,
    lost_in_square,
    number,
    power_of_two,
    quotient,
    ratio,
    root,
    scaled,
    signed,
    upper,
)

LOGARITHMS, POWERS = tables.LOGARITHMS, tables.POWERS
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471805598903, 5.497923018708371e-14
"""The natural logarithm of 2: a multiple of 2**-42, and the rest."""
_STEPS, _STEP, _STEP_LOW = 184.6649652337873, 0.005415212347998022, 1.2655086083325438e-13
"""128 / log(2); the first 35 bits of log(2) / 128; the rest."""
_ORDINARY = 700.0
"""Powers of e up to this magnitude are neither subnormal nor infinite."""
_LEAST = 0x3FE6955500000000
"""The bits of the least number of the table of logarithms."""
_SMALLEST = 2.2250738585072014e-308


@in_both
def _parts(x: float) -> tuple[float, float, int]:
    """Return ``x`` less the nearest multiple ``n`` of log(2), in two parts, and ``n``."""
    turned = x * _LOG2_E + ROUND
    n = turned - ROUND
    high, low = x - n * _LN2_HIGH, n * _LN2_LOW
    r = high - low
    return r, (high - r) - low, bits(turned) - ROUND_BITS


@in_both
def _grown(r: float, w: float) -> float:
    """Return ``exp(r) - 1 - r - w / 2``, for ``|r|`` < 0.35 and its square ``w``."""
    v = w * w
    p = (0.16666666666666682 + r * 0.04166666666666609) + (
        w * (0.008333333333316916 + r * 0.0013888888889117303)
        + v
        * (
            (0.00019841269896682574 + r * 2.480158692453664e-05)
            + w * (2.7557234557322365e-06 + r * 2.755758284902279e-07)
            + v * (2.511214495831744e-08 + r * 2.0826521084235155e-09)
        )
    )
    return (r * w) * p


@in_both
def _bounded(x: float, low: float, high: float) -> float:
    return chosen(x > high, high, chosen(x < low, low, x))


@in_both
def _exponential(x: float, low: float) -> tuple[float, float, int]:
    """Return e to the power ``x + low`` as ``(1 + p) * s * 2**k``: ``p``, ``s`` and ``k``.

    Source: P. Tang, Table-Driven Implementation of the Exponential Function, ACM TOMS 15, 1989.
    """
    turned = x * _STEPS + ROUND
    n = turned - ROUND
    r = (x - n * _STEP) - n * _STEP_LOW + low
    word = bits(turned) - ROUND_BITS
    at = 2 * (word & 127)
    z = r * r
    p = (float(POWERS[at + 1]) + r) + (
        z * (0.4999999999999677 + r * 0.16666666666665883)
        + (z * z) * (0.041666680871140595 + r * 0.008333335857229054)
    )
    return p, float(POWERS[at]), word >> 7


@in_both
def _raised(x: float, low: float) -> float:
    p, s, k = _exponential(x, low)
    s = number(bits(s) + (k << 52))
    return s + s * p


@in_both
def _raised_far(x: float, low: float) -> float:
    p, s, k = _exponential(x, low)
    return scaled(s + s * p, k)


@in_both
def exp(x: float) -> float:
    """Return e to the power ``x``."""
    if abs(x) < _ORDINARY:
        return _raised(x, 0.0)
    return _exp_far(x)


def _exp_far(x: float) -> float:
    return _raised_far(_bounded(x, -750.0, 710.0), 0.0)


in_both(_exp_far, inlined=False)


@in_both
def expm1(x: float) -> float:
    """Return e to the power ``x``, less 1, also for ``x`` near 0."""
    r, rest, n = _parts(_bounded(x, -60.0, 710.0))
    w = r * r
    rest += rest * (r + 0.5 * w) + (_grown(r, w) + 0.5 * lost_in_square(r, w))
    unit = chosen(n > 1000, 0.0, power_of_two(-n))
    one = 1.0 - unit
    part = one - 1.0
    rest += (1.0 - (one - part)) - (unit + part)
    high = one + r
    rest += 0.5 * w + ((one - high) + r)
    return signed(abs(scaled(high + rest, n)), x)


# -- logarithms ------------------------------------------------------------------------------------


@in_both
def _logarithm(x: float, less: float) -> tuple[float, float]:
    """Return the logarithm of ``x / 2**less`` in two parts; their relative error is below 2**-65.

    ``x`` must not be subnormal.

    Source: P. Tang, Table-Driven Implementation of the Logarithm Function, ACM TOMS 16, 1990. The
    logarithm of the remaining factor ``1 + r`` is computed in two parts, as in the powers of the
    Optimized Routines of Arm.
    """
    word = bits(x)
    above = word - _LEAST
    at, power = 3 * ((above >> 45) & 127), above >> 52
    word -= power << 52
    head = number((word + 0x80000000) & -0x100000000)
    inverse = float(LOGARITHMS[at])
    r_head, r_tail = head * inverse - 1.0, (number(word) - head) * inverse  # exact
    r = r_head + r_tail
    k = as_float(power) - less
    whole = k * _LN2_HIGH + float(LOGARITHMS[at + 1])  # exact
    first = whole + r
    rest = (k * _LN2_LOW + float(LOGARITHMS[at + 2])) + (
        ((whole - first) + r) + ((r_head - r) + r_tail)
    )
    half, half_head = -0.5 * r, -0.5 * r_head
    z = r * half
    square = r_head * half_head  # exact
    high = first + square
    rest += r_tail * (half + half_head) + ((first - high) + square)
    rest += (r * z) * (
        (-0.666666666666668 + r * 0.5000000000000026)
        + z
        * (
            (0.7999999995137432 + r * -0.6666666659859042)
            + z * (-1.142910670721724 + r * 1.0000583353326656)
        )
    )
    found = high + rest
    return found, (high - found) + rest


@in_both
def _common(x: float) -> bool:
    """Return whether ``x`` is positive, finite and not subnormal."""
    return (x >= _SMALLEST) & (x < math.inf)


@in_both
def _logarithm_far(x: float) -> tuple[float, float]:
    """Return the logarithm of any ``x`` in two parts."""
    tiny = x < _SMALLEST
    high, low = _logarithm(chosen(tiny, x * 2.0**54, x), chosen(tiny, 54.0, 0.0))
    special = chosen(x == 0.0, -math.inf, chosen(x < 0.0, math.nan, x))
    finite = (x > 0.0) & (x < math.inf)
    return chosen(finite, high, special), chosen(finite, low, 0.0)


@in_both
def log(x: float) -> float:
    """Return the natural logarithm of ``x``."""
    if _common(x):
        return _logarithm(x, 0.0)[0]
    return _log_far(x)


def _log_far(x: float) -> float:
    return _logarithm_far(x)[0]


in_both(_log_far, inlined=False)


@in_both
def log1p(x: float) -> float:
    """Return the natural logarithm of ``1 + x``, also for ``x`` near 0."""
    u = 1.0 + x
    lost = chosen(x > 1.0, 1.0 - (u - x), x - (u - 1.0))
    if _common(u):
        high, low = _logarithm(u, 0.0)
        return signed(abs(high + (low + lost / u)), x)
    return _log_far(u)


@in_both
def _to_base(high: float, low: float, inverse: float, inverse_low: float) -> float:
    head = upper(high)
    first = head * inverse
    return first + (((high - head) + low) * inverse + high * inverse_low)


_LOG10_E, _LOG10_E_LOW = 0.4342944771051407, 4.798111141615973e-09
_LOG2_E_HIGH, _LOG2_E_LOW = 1.4426950216293335, 1.9259629911266175e-08


@in_both
def log10(x: float) -> float:
    """Return the logarithm of ``x`` to the base 10."""
    if _common(x):
        high, low = _logarithm(x, 0.0)
        return _to_base(high, low, _LOG10_E, _LOG10_E_LOW)
    return _log10_far(x)


def _log10_far(x: float) -> float:
    high, low = _logarithm_far(x)
    return chosen(abs(high) < math.inf, _to_base(high, low, _LOG10_E, _LOG10_E_LOW), high)


in_both(_log10_far, inlined=False)


@in_both
def log2(x: float) -> float:
    """Return the logarithm of ``x`` to the base 2."""
    if _common(x):
        high, low = _logarithm(x, 0.0)
        return _to_base(high, low, _LOG2_E_HIGH, _LOG2_E_LOW)
    return _log2_far(x)


def _log2_far(x: float) -> float:
    high, low = _logarithm_far(x)
    return chosen(abs(high) < math.inf, _to_base(high, low, _LOG2_E_HIGH, _LOG2_E_LOW), high)


in_both(_log2_far, inlined=False)


# -- powers ----------------------------------------------------------------------------------------


@in_both
def _times(y: float, high: float, low: float) -> tuple[float, float]:
    """Return ``y`` times ``high + low`` in two parts."""
    head, first = upper(y), upper(high)
    return head * first, (y - head) * first + y * ((high - first) + low)


@in_both
def pow(x: float, y: float) -> float:
    """Return ``x`` to the power ``y``."""
    high, low = _logarithm(x, 0.0)
    product, rest = _times(y, high, low)
    if _common(x) & (abs(product) < _ORDINARY):
        return _raised(product, rest)
    return _pow_far(x, y)


def _pow_far(x: float, y: float) -> float:
    size = abs(x)
    high, low = _logarithm_far(size)
    product, rest = _times(_bounded(y, -(2.0**66), 2.0**66), high, low)
    far = abs(product) > 760.0
    found = _raised_far(chosen(far, signed(760.0, product), product), chosen(far, 0.0, rest))
    extreme = (size == 0.0) | (size == math.inf)
    found = chosen(extreme, chosen((y < 0.0) == (size < 1.0), math.inf, 0.0), found)
    whole = floored(y) == y
    odd = whole & (floored(0.5 * y) != 0.5 * y) & (abs(y) < math.inf)
    found = chosen(odd & (signed(1.0, x) < 0.0), -found, found)
    found = chosen((x < 0.0) & (x > -math.inf) & (not whole), math.nan, found)
    found = chosen((x != x) | (y != y), x + y, found)
    return chosen((y == 0.0) | (x == 1.0), 1.0, found)


in_both(_pow_far, inlined=False)


@in_both
def cbrt(x: float) -> float:
    """Return the cube root of ``x``."""
    size = abs(x)
    tiny = size < _SMALLEST
    word = bits(chosen(tiny, size * 2.0**54, size))
    m = number((word & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000)
    k = as_float((word >> 52) - 1023) - chosen(tiny, 54.0, 0.0)
    third = floored((k + 0.5) * 0.3333333333333333)
    left = k - 3.0 * third
    p = (0.4733306358754601 + m * 0.8381601606382003) + (m * m) * (
        (-0.46922885950108084 + m * 0.20277729926346377)
        + (m * m) * (-0.05038655370888726 + m * 0.005348548338293065)
    )
    p *= chosen(left == 0.0, 1.0, chosen(left == 1.0, 1.2599210498948732, 1.5874010519681996))
    m *= chosen(left == 0.0, 1.0, chosen(left == 1.0, 2.0, 4.0))
    t = upper(p)
    r = m / (t * t)  # the square is exact
    t += t * ((r - t) / ((t + t) + r))
    found = signed(scaled(t, bits(third + ROUND) - ROUND_BITS), x)
    return chosen((size > 0.0) & (size < math.inf), found, x)


# -- hyperbolic functions --------------------------------------------------------------------------


@in_both
def _hyperbolic(x: float) -> tuple[float, float, float, float, float, int]:
    """Return functions of ``x`` >= 0 times ``2**(1 - n)``, and ``n``.

    The functions are sinh and cosh, each in two parts, and exp of ``-x``.
    """
    r, rest, n = _parts(x)
    z = r * r
    w = z * z
    half = 0.5 * z
    even = (0.5 * lost_in_square(r, z) + rest * r) + w * (
        (0.04166666666666671 + z * 0.0013888888888862938)
        + w * (2.480158736524168e-05 + z * 2.7557240291040536e-07)
        + (w * w) * 2.0924895580180175e-09
    )
    odd = (r * z) * (
        (0.16666666666666677 + z * 0.008333333333321149)
        + w * ((0.000198412698874936 + z * 2.7557242701199046e-06) + w * 2.510960402112688e-08)
    )
    odd += rest + rest * half
    q = chosen(n > 60, 0.0, power_of_two(-(n + n)))
    less, more, product = 1.0 - q, 1.0 + q, r * q
    high, low = _sum(less, r + product)
    low += ((1.0 - less) - q) + ((r - (r + product)) + product)
    sine, sine_low = _sum(high, less * half + (low + (less * even + more * odd)))
    high, low = _sum(more, r - product)
    low += ((1.0 - more) + q) + ((r - (r - product)) - product)
    cosine, cosine_low = _sum(high, more * half + (low + (more * even + less * odd)))
    left = (q + q) * ((1.0 - r) + (half + (even - odd)))
    return sine, sine_low, cosine, cosine_low, left, n


@in_both
def _sum(x: float, y: float) -> tuple[float, float]:
    """Return ``x + y`` and its error; ``x`` must be 0 or not smaller than ``y``."""
    found = x + y
    return found, (x - found) + y


@in_both
def sinh(x: float) -> float:
    """Return the hyperbolic sine of ``x``."""
    sine, _, _, _, _, n = _hyperbolic(_bounded(abs(x), 0.0, 712.0))
    return signed(scaled(0.5 * sine, n), x)


@in_both
def cosh(x: float) -> float:
    """Return the hyperbolic cosine of ``x``."""
    _, _, cosine, _, _, n = _hyperbolic(_bounded(abs(x), 0.0, 712.0))
    return scaled(0.5 * cosine, n)


@in_both
def tanh(x: float) -> float:
    """Return the hyperbolic tangent of ``x``."""
    sine, sine_low, cosine, cosine_low, left, n = _hyperbolic(_bounded(abs(x), 0.0, 22.0))
    large = n > 2  # the difference to 1 is computed
    above, above_low = chosen(large, left, sine), chosen(large, 0.0, sine_low)
    first, rest = quotient(above, above_low, cosine, cosine_low)
    found = first + rest
    return signed(chosen(large, 1.0 - found, found), x)


# -- lengths and remainders ------------------------------------------------------------------------


@in_both
def _length(a: float, b: float) -> float:
    """Return the length of a vector with ``a >= b >= 0``.

    Source: C. Borges, An Improved Algorithm for hypot(a,b), ACM TOMS 47, 2021.
    """
    length = root(a * a + b * b)
    near = length <= 2.0 * b
    more = length - chosen(near, b, a)
    first = chosen(near, a * (2.0 * more - a), 2.0 * more * (a - 2.0 * b))
    second = chosen(near, (more - 2.0 * (a - b)) * more, (4.0 * more - b) * b + more * more)
    return length - (first + second) / (2.0 * length)


@in_both
def hypot(x: float, y: float) -> float:
    """Return the length of the vector ``(x, y)``."""
    x, y = abs(x), abs(y)
    large, small = chosen(y > x, y, x), chosen(y > x, x, y)
    if (large > _SHORT) & (large < _LONG) & (y == y):
        return _length(large, small)
    return _hypot_far(large, small)


_SHORT, _LONG = 2.0**-450, 2.0**500


def _hypot_far(large: float, small: float) -> float:
    factor = chosen(large < 1.0, 2.0**600, 2.0**-600)
    found = _length(chosen(large > 0.0, large * factor, 1.0), small * factor)
    found *= chosen(large < 1.0, 2.0**-600, 2.0**600)
    infinite = (large == math.inf) | (small == math.inf)
    found = chosen(large == 0.0, large + small, found)
    return chosen(infinite, math.inf, chosen(large != large, large, found))


in_both(_hypot_far, inlined=False)


@in_both
def _product(x: float, y: float) -> tuple[float, float]:
    """Return the exact product of two numbers in two parts."""
    head = number((bits(x) + 0x4000000) & -0x8000000)
    first = number((bits(y) + 0x4000000) & -0x8000000)
    tail, second = x - head, y - first
    found = x * y
    return found, ((head * first - found) + head * second + tail * first) + tail * second


def _long_division(x: float, y: float) -> float:
    return float(np.fmod(x, y))


in_both(_long_division, inlined=False)


@in_both
def fmod(x: float, y: float) -> float:
    """Return the exact remainder of ``x / y``, with the sign of ``x``.

    A quotient of at least 2**53 needs a branch.
    """
    size, by = abs(x), abs(y)
    times = ratio(size, by)
    if (times >= 2.0**53) & (size < math.inf) & (by > 0.0):
        return _long_division(x, y)
    huge = (size > 2.0**1000) | (by > 2.0**1000)
    factor = chosen(huge, 2.0**-60, 1.0)
    a, b = size * factor, by * factor
    high, low = _product(floored(times), b)
    rest = (a - high) - low
    rest += chosen(rest < 0.0, b, 0.0)
    rest *= chosen(huge, 2.0**60, 1.0)
    found = chosen(by > size, size, rest)
    valid = (size < math.inf) & (by > 0.0)
    return signed(chosen(valid, found, math.nan), x)

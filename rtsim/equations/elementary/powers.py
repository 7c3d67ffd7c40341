"""Compute exponential functions, logarithms, powers, hyperbolic functions and lengths.

The methods are those of W. Cody and W. Waite, Software Manual for the Elementary Functions, 1980,
and of fdlibm (Sun Microsystems, 1993). ``python -m tools.minimax`` computes the coefficients.
"""

from __future__ import annotations

import math

from rtsim.equations.compiling import in_both
from rtsim.equations.elementary.operations import (
    ROUND,
    ROUND_BITS,
    as_float,
    bits,
    chosen,
    floored,
    number,
    power_of_two,
    quotient,
    ratio,
    root,
    scaled,
    signed,
    upper,
)

_LOG2_E = 1.4426950408889634
_LN2, _LN2_HIGH, _LN2_LOW = 0.6931471805599453, 0.6931471805592082, 7.371002565167799e-13
"""The natural logarithm of 2; its first 40 bits; the rest."""
_LN2_26, _LN2_27 = 0.6931471675634384, 1.2996506893889889e-08
_LOWEST = 0x3FE6A09E667F3BCD
"""The bits of the root of 1/2."""
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
def _grown(r: float) -> float:
    """Return ``exp(r) - 1 - r``, for ``|r|`` < 0.35."""
    w = r * r
    v = w * w
    p = (
        (0.5 + r * 0.16666666666666682)
        + w * (0.04166666666666609 + r * 0.008333333333316916)
        + v
        * (
            (0.0013888888889117303 + r * 0.00019841269896682574)
            + w * (2.480158692453664e-05 + r * 2.7557234557322365e-06)
            + v * ((2.755758284902279e-07 + r * 2.511214495831744e-08) + w * 2.0826521084235155e-09)
        )
    )
    return w * p


@in_both
def _bounded(x: float, low: float, high: float) -> float:
    return chosen(x > high, high, chosen(x < low, low, x))


@in_both
def exp(x: float) -> float:
    """Return e to the power ``x``."""
    r, rest, n = _parts(_bounded(x, -750.0, 710.0))
    one = 1.0 + r
    return scaled(one + (((1.0 - one) + r) + (rest + _grown(r))), n)


@in_both
def expm1(x: float) -> float:
    """Return e to the power ``x``, less 1, also for ``x`` near 0."""
    r, rest, n = _parts(_bounded(x, -60.0, 710.0))
    rest += _grown(r)
    unit = chosen(n > 1000, 0.0, power_of_two(-n))
    one = 1.0 - unit
    part = one - 1.0
    rest += (1.0 - (one - part)) - (unit + part)
    high = one + r
    return signed(abs(scaled(high + (((one - high) + r) + rest), n)), x)


# -- logarithms ------------------------------------------------------------------------------------


@in_both
def _mantissa(x: float) -> tuple[float, float]:
    """Return ``f`` and ``k`` such that ``x = 2**k * (1 + f)``, with 1 + f near 1."""
    tiny = x < _SMALLEST
    word = bits(chosen(tiny, x * 2.0**54, x)) - _LOWEST
    k = word >> 52
    f = number(word - (k << 52) + _LOWEST) - 1.0
    return f, as_float(k) - chosen(tiny, 54.0, 0.0)


@in_both
def _logarithm(f: float) -> tuple[float, float]:
    """Return the logarithm of ``1 + f``, less ``f``, as a difference: ``(less, more)``."""
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    p = (0.6666666666666735 + z * 0.39999999999411107) + w * (
        (0.28571428743260424 + z * 0.22222198476132016)
        + w * ((0.18183569735442331 + z * 0.15313903297828368) + w * 0.14797507658605685)
    )
    half = 0.5 * f * f
    return half, s * (half + z * p)


@in_both
def _limits(x: float, found: float) -> float:
    special = chosen(x == 0.0, -math.inf, chosen(x < 0.0, math.nan, x))
    return chosen((x > 0.0) & (x < math.inf), found, special)


@in_both
def log(x: float) -> float:
    """Return the natural logarithm of ``x``."""
    f, k = _mantissa(x)
    less, more = _logarithm(f)
    return _limits(x, k * _LN2_HIGH - ((less - (more + k * _LN2_LOW)) - f))


@in_both
def log1p(x: float) -> float:
    """Return the natural logarithm of ``1 + x``, also for ``x`` near 0."""
    u = 1.0 + x
    f, k = _mantissa(u)
    lost = chosen(x > 1.0, 1.0 - (u - x), x - (u - 1.0))
    near = k == 0.0
    f, lost = chosen(near, x, f), chosen(near, 0.0, lost)
    less, more = _logarithm(f)
    low = k * _LN2_LOW + ratio(lost, u)
    found = k * _LN2_HIGH - ((less - (more + low)) - f)
    return signed(abs(_limits(u, found)), x)


@in_both
def _to_base(x: float, two: float, two_low: float, inverse: float, inverse_low: float) -> float:
    """Return a logarithm of ``x``, given the logarithms of 2 and e, in two parts each."""
    f, k = _mantissa(x)
    less, more = _logarithm(f)
    high = upper(f - less)
    low = ((f - high) - less) + more
    first, second = k * two, high * inverse
    rest = k * two_low + (low + high) * inverse_low + low * inverse
    found = first + second
    return _limits(x, found + (((first - found) + second) + rest))


@in_both
def log10(x: float) -> float:
    """Return the logarithm of ``x`` to the base 10."""
    return _to_base(
        x,
        0.30102999566361177,
        3.694239077158931e-13,
        0.4342944771051407,
        4.798111141615973e-09,
    )


@in_both
def log2(x: float) -> float:
    """Return the logarithm of ``x`` to the base 2."""
    return _to_base(x, 1.0, 0.0, 1.4426950216293335, 1.9259629911266175e-08)


# -- powers ----------------------------------------------------------------------------------------


@in_both
def _log2_in_parts(x: float) -> tuple[float, float]:
    """Return the logarithm of ``x`` > 0 to the base 2, as a number of 26 bits and a rest.

    The relative error is less than 2**-64.
    """
    f, k = _mantissa(x)
    below = 2.0 + f
    s, s_low = quotient(f, 0.0, below, f - (below - 2.0))
    full = s + s_low
    z = full * full
    w = z * z
    v = w * w
    p = (
        (0.6 + z * 0.4285714285714407)
        + w * (0.3333333333247227 + z * 0.272727275055519)
        + v
        * (
            (0.23076892194442006 + z * 0.20002219975581337)
            + w * (0.1755902232641963 + z * 0.17588114242344835)
        )
    )
    square = s * s
    more = w * p + s_low * (s + full)
    t = upper(3.0 + square + more)
    t_low = more - ((t - 3.0) - square)
    # 3/2 of the natural logarithm of 1 + f is full * (t + t_low)
    u, v = s * t, s_low * t + t_low * full
    high = upper(u + v)
    low = v - (high - u)
    first = 0.9617966860532761 * high
    second = 7.872699542894897e-09 * high + low * 0.9617966939259756
    found = upper((first + second) + k)
    return found, second - ((found - k) - first)


@in_both
def pow(x: float, y: float) -> float:
    """Return ``x`` to the power ``y``."""
    size = abs(x)
    high, low = _log2_in_parts(size)
    times = _bounded(y, -(2.0**66), 2.0**66)
    head = upper(times)
    product, rest = head * high, (times - head) * high + times * low
    far = abs(product) > 1200.0
    product, rest = chosen(far, signed(1200.0, product), product), chosen(far, 0.0, rest)
    turned = product + rest + ROUND
    part = product - (turned - ROUND)
    t = upper(part + rest)
    first = t * _LN2_26
    second = (rest - (t - part)) * _LN2 + t * _LN2_27
    r = first + second
    rest = second - (r - first)
    one = 1.0 + r
    found = one + (((1.0 - one) + r) + (rest + _grown(r)))
    found = scaled(found, bits(turned) - ROUND_BITS)
    grows = (y < 0.0) == (size < 1.0)
    extreme = (size == 0.0) | (size == math.inf)
    found = chosen(extreme, chosen(grows, math.inf, 0.0), found)
    negative = bits(x) < 0
    whole = floored(y) == y
    odd = whole & (floored(0.5 * y) != 0.5 * y) & (abs(y) < math.inf)
    found = chosen(negative & odd, -found, found)
    invalid = (x < 0.0) & (x > -math.inf) & (not whole)
    found = chosen(invalid, math.nan, found)
    found = chosen((x != x) | (y != y), x + y, found)
    return chosen((y == 0.0) | (x == 1.0), 1.0, found)


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
def _hyperbolic(x: float) -> tuple[float, float, float, float, int]:
    """Return sinh and cosh of ``x`` >= 0, each in two parts and times ``2**(1 - n)``, and ``n``."""
    r, rest, n = _parts(x)
    z = r * r
    w = z * z
    even = z * (
        (0.5 + z * 0.04166666666666671)
        + w
        * (
            (0.0013888888888862938 + z * 2.480158736524168e-05)
            + w * (2.7557240291040536e-07 + z * 2.0924895580180175e-09)
        )
    )
    odd = (r * z) * (
        (0.16666666666666677 + z * 0.008333333333321149)
        + w * ((0.000198412698874936 + z * 2.7557242701199046e-06) + w * 2.510960402112688e-08)
    )
    odd += rest
    q = chosen(n > 60, 0.0, power_of_two(-(n + n)))
    less, more, product = 1.0 - q, 1.0 + q, r * q
    high, low = _sum(less, r + product)
    low += ((1.0 - less) - q) + ((r - (r + product)) + product)
    sine, sine_low = _sum(high, low + (less * even + more * odd))
    high, low = _sum(more, r - product)
    low += ((1.0 - more) + q) + ((r - (r - product)) - product)
    cosine, cosine_low = _sum(high, low + (more * even + less * odd))
    return sine, sine_low, cosine, cosine_low, n


@in_both
def _sum(x: float, y: float) -> tuple[float, float]:
    """Return ``x + y`` and its error; ``x`` must be 0 or not smaller than ``y``."""
    found = x + y
    return found, (x - found) + y


@in_both
def sinh(x: float) -> float:
    """Return the hyperbolic sine of ``x``."""
    sine, _, _, _, n = _hyperbolic(_bounded(abs(x), 0.0, 712.0))
    return signed(scaled(0.5 * sine, n), x)


@in_both
def cosh(x: float) -> float:
    """Return the hyperbolic cosine of ``x``."""
    _, _, cosine, _, n = _hyperbolic(_bounded(abs(x), 0.0, 712.0))
    return scaled(0.5 * cosine, n)


@in_both
def tanh(x: float) -> float:
    """Return the hyperbolic tangent of ``x``."""
    sine, sine_low, cosine, cosine_low, _ = _hyperbolic(_bounded(abs(x), 0.0, 22.0))
    first, rest = quotient(sine, sine_low, cosine, cosine_low)
    return signed(first + rest, x)


# -- lengths and remainders ------------------------------------------------------------------------


@in_both
def hypot(x: float, y: float) -> float:
    """Return the length of the vector ``(x, y)``.

    Source: C. Borges, An Improved Algorithm for hypot(a,b), ACM TOMS 47, 2021.
    """
    x, y = abs(x), abs(y)
    large, small = chosen(y > x, y, x), chosen(y > x, x, y)
    factor = chosen(large > 2.0**500, 2.0**-600, chosen(large < 2.0**-450, 2.0**600, 1.0))
    back = chosen(large > 2.0**500, 2.0**600, chosen(large < 2.0**-450, 2.0**-600, 1.0))
    a, b = large * factor, small * factor
    length = root(a * a + b * b)
    near = length <= 2.0 * b
    more = length - chosen(near, b, a)
    first = chosen(near, a * (2.0 * more - a), 2.0 * more * (a - 2.0 * b))
    second = chosen(near, (more - 2.0 * (a - b)) * more, (4.0 * more - b) * b + more * more)
    length -= (first + second) / chosen(length > 0.0, 2.0 * length, 1.0)
    found = length * back
    return chosen((x == math.inf) | (y == math.inf), math.inf, found)


@in_both
def _product(x: float, y: float) -> tuple[float, float]:
    """Return the exact product of two numbers in two parts."""
    head = number((bits(x) + 0x4000000) & -0x8000000)
    first = number((bits(y) + 0x4000000) & -0x8000000)
    tail, second = x - head, y - first
    found = x * y
    return found, ((head * first - found) + head * second + tail * first) + tail * second


def _long_division(x: float, y: float) -> float:
    return math.fmod(x, y)


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
    factor = chosen(size > 2.0**1000, 2.0**-60, 1.0)
    a, b = size * factor, by * factor
    high, low = _product(floored(times), b)
    rest = (a - high) - low
    rest += chosen(rest < 0.0, b, 0.0)
    rest *= chosen(size > 2.0**1000, 2.0**60, 1.0)
    found = chosen(by == math.inf, size, rest)
    valid = (size < math.inf) & (by > 0.0)
    return signed(chosen(valid, found, math.nan), x)

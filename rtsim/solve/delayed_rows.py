"""The rows of the past: each delayed signal over one internal step, as a polynomial.

A state follows the dense output of the solver.  A signal of ``lines`` is computed at evenly spaced
points of the dense output; its polynomial goes through these values.  An input and a discrete
signal are constant over the step.
"""

from __future__ import annotations

from typing import Any

from rtsim.equations.addresses import call_equation, matrix_at, vector_at
from rtsim.equations.compiling import in_both
from rtsim.equations.delayed_values import AT, BEGIN, END, FIRST_END, LENGTH, now_of
from rtsim.equations.delays import LINE, STATE
from rtsim.solve.legs import within
from rtsim.solve.method import AT as STEP_AT


@in_both
def between_ends(words: Any, table: Any, part: float, taken: float) -> None:
    """Write to ``y`` the state at the fraction ``part`` of the last internal step of the solver.

    ``slopes`` has the derivatives at both ends, unless the solver has a dense output of its own.
    """
    y, began = vector_at(table, AT.y), vector_at(table, AT.began)
    out = vector_at(words, STEP_AT.out)
    k, slopes = matrix_at(table, AT.k), matrix_at(table, AT.slopes)
    if k.shape[0] > 0:
        within(y, began, k, matrix_at(table, AT.dense), part, taken)
        return
    rest = 1.0 - part
    for i in range(y.size):
        way = out[i] - began[i]
        bend = (rest - part) * way - rest * taken * slopes[0, i] + part * taken * slopes[1, i]
        y[i] = began[i] + part * (way - rest * bend)


@in_both
def find_slopes(words: Any, table: Any, t: float, taken: float) -> None:
    """Fill ``slopes``, if the solver has no dense output of its own."""
    if matrix_at(table, AT.k).shape[0] > 0:
        return
    began, out, slopes = (
        vector_at(table, AT.began),
        vector_at(words, STEP_AT.out),
        matrix_at(table, AT.slopes),
    )
    z, u, p = vector_at(words, STEP_AT.z), vector_at(words, STEP_AT.u), vector_at(words, STEP_AT.p)
    call_equation(table[AT.slope], t, began, z, u, p, slopes[0])
    call_equation(table[AT.slope], t + taken, out, z, u, p, slopes[1])


@in_both
def write_row(words: Any, table: Any, n: int, t: float, taken: float, length: float) -> None:
    """Write row ``n``: the internal step from ``t`` s, ``taken`` s long.

    The solver's dense output belongs to a step of ``length`` s.
    """
    rows, elements = matrix_at(table, AT.rows), matrix_at(table, AT.elements)
    row = rows[n % rows.shape[0]]
    z, u = vector_at(words, STEP_AT.z), vector_at(words, STEP_AT.u)
    out, v = vector_at(words, STEP_AT.out), vector_at(table, AT.v)
    q = elements.shape[0]
    terms = (row.size - FIRST_END - q) // q
    if taken == length:
        find_slopes(words, table, t, taken)
        if v.size > 0:
            find_nodes(words, table, t, taken)
        for e in range(q):
            coefficients = row[FIRST_END + q + e * terms : FIRST_END + q + (e + 1) * terms]
            kind, i = int(elements[e, 0]), int(elements[e, 1])
            if kind == STATE:
                state_over(words, table, i, taken, coefficients)
            elif kind == LINE:
                line_over(table, i, coefficients)
            else:
                for d in range(terms):
                    coefficients[d] = 0.0
                coefficients[0] = now_of(table, e, out, z, u)
    row[BEGIN], row[END], row[LENGTH] = t, t + taken, length
    if v.size > 0:
        p = vector_at(words, STEP_AT.p)
        call_equation(table[AT.lines_now], t + taken, out, z, u, p, v)
    for e in range(q):
        if int(elements[e, 0]) == LINE:
            row[FIRST_END + e] = v[int(elements[e, 1])]
        else:
            row[FIRST_END + e] = now_of(table, e, out, z, u)


@in_both
def state_over(words: Any, table: Any, i: int, taken: float, coefficients: Any) -> None:
    """Write the polynomial of state ``i`` over the internal step."""
    began, out = vector_at(table, AT.began), vector_at(words, STEP_AT.out)
    k, dense = matrix_at(table, AT.k), matrix_at(table, AT.dense)
    coefficients[0] = began[i]
    if k.shape[0] > 0:
        for d in range(dense.shape[1]):
            total = 0.0
            for s in range(dense.shape[0]):
                total += dense[s, d] * k[s, i]
            coefficients[d + 1] = taken * total
        return
    slopes = matrix_at(table, AT.slopes)
    way, left, right = out[i] - began[i], taken * slopes[0, i], taken * slopes[1, i]
    coefficients[1] = left
    coefficients[2] = 3.0 * way - 2.0 * left - right
    coefficients[3] = left + right - 2.0 * way


@in_both
def find_nodes(words: Any, table: Any, t: float, taken: float) -> None:
    """Fill ``nodes_v``: the signals of ``lines`` at evenly spaced points of the internal step."""
    nodes, y = matrix_at(table, AT.nodes_v), vector_at(table, AT.y)
    began, out = vector_at(table, AT.began), vector_at(words, STEP_AT.out)
    z, u, p = vector_at(words, STEP_AT.z), vector_at(words, STEP_AT.u), vector_at(words, STEP_AT.p)
    degree = nodes.shape[0] - 1
    call_equation(table[AT.lines_now], t, began, z, u, p, nodes[0])
    for i in range(1, degree):
        between_ends(words, table, i / degree, taken)
        call_equation(table[AT.lines_now], t + i / degree * taken, y, z, u, p, nodes[i])
    call_equation(table[AT.lines_now], t + taken, out, z, u, p, nodes[degree])


@in_both
def line_over(table: Any, i: int, coefficients: Any) -> None:
    """Write the polynomial through the values of signal ``i`` of ``lines`` at the points."""
    fit, nodes = matrix_at(table, AT.fit), matrix_at(table, AT.nodes_v)
    for d in range(nodes.shape[0]):
        total = 0.0
        for m in range(nodes.shape[0]):
            total += fit[d, m] * nodes[m, i]
        coefficients[d] = total

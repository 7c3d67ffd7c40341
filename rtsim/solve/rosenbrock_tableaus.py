"""Coefficients of Rosenbrock methods, in the form without products with the Jacobian.

With the stages k_i, the Jacobian J, the step h and the derivative f of the model:

    (1/gamma - h J) k_i = f(t + c_i h, x + h sum_j a_ij k_j) + sum_j e_ij k_j + h d_i df/dt

The state at the end of the step is x + h sum_j b_j k_j, and its error about h sum_j error_j k_j.
Source of this form: Hairer, Wanner, Solving Ordinary Differential Equations II, section IV.7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Vector

_NEAR = 1e-11
"""How well the published coefficients, which are rounded, satisfy a condition."""


@dataclass(frozen=True)
class RosenbrockTableau:
    """A Rosenbrock method with s stages, an error estimate and dense output.

    ``a`` and ``e`` are strictly lower triangles: row i has i entries.  ``b``, ``c``, ``d`` and
    ``error`` have s entries.  ``dense`` (rows of s entries) are the coefficients h_j of the dense
    output ``(1 - r) x + r (x1 + (1 - r) (h_1 + r h_2 + r^2 h_3 ...))`` at the fraction r of a step
    that ends at x1.  Raises :class:`ScenarioError` if a row of ``a`` does not belong to its node,
    or ``d`` not to ``e``, or the method is not consistent.
    """

    name: str
    order: int
    lower: int
    """The order of the embedded method, whose distance is the error."""
    gamma: float
    a: tuple[tuple[float, ...], ...]
    e: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    c: tuple[float, ...]
    d: tuple[float, ...]
    error: tuple[float, ...]
    dense: tuple[tuple[float, ...], ...]
    source: str

    def __post_init__(self) -> None:
        s = len(self.b)
        if any(len(row) != i for rows in (self.a, self.e) for i, row in enumerate(rows)):
            raise ScenarioError(f"tableau {self.name}: row i of a and of e must have i entries")
        sizes = {len(row) for row in (self.a, self.e, self.c, self.d, self.error, *self.dense)}
        if sizes != {s}:
            raise ScenarioError(f"tableau {self.name}: all coefficients must have {s} entries")
        # the stages of x' = 1, which has no Jacobian, and of x' = t
        ones = np.linalg.solve(np.eye(s) / self.gamma - triangle(self.e), np.ones(s))
        nodes = triangle(self.a) @ ones
        for name, given, wanted in (("c", self.c, nodes), ("d", self.d, ones)):
            off = np.abs(np.array(given) - wanted)
            if np.any(off > _NEAR):
                raise ScenarioError(
                    f"tableau {self.name}: {name} does not belong to the other coefficients in row "
                    f"{int(np.argmax(off))}: it is off by {off.max():.2g}"
                )
        if not abs(np.dot(self.b, ones) - 1.0) < _NEAR:
            raise ScenarioError(f"tableau {self.name}: the weights b do not sum to 1 step")

    @property
    def first_same_as_last(self) -> bool:
        """Return False: the derivative at the end of a step is not one of its stages."""
        return False

    @property
    def error_weights(self) -> Vector:
        """Return the weights (s,) of the stages in the error estimate."""
        return np.array(self.error)

    @property
    def dense_weights(self) -> NDArray[np.float64]:
        """Return the weights (s, degree) of the dense output, in the form of ``EmbeddedTableau``.

        The state at the fraction r of a step of h s is ``x + h sum_ij w[i, j] r^(j + 1) k_i``.
        """
        rows = np.array(self.dense)
        out = np.zeros((len(self.b), len(rows) + 1))
        out[:, 0] = self.b
        out[:, :-1] += rows.T
        out[:, 1:] -= rows.T
        return out


def triangle(rows: tuple[tuple[float, ...], ...]) -> NDArray[np.float64]:
    """Return the rows of a strictly lower triangle as a square array (s, s)."""
    out = np.zeros((len(rows), len(rows)))
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return out


_LAST = (
    -7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256,
    0.030198172008377946,
)  # fmt: skip

RODAS5P_TABLEAU = RosenbrockTableau(
    name="rodas5p",
    order=5,
    lower=4,
    gamma=0.21193756319429014,
    a=(
        (),
        (3.0,),
        (2.849394379747939, 0.45842242204463923),
        (-6.954028509809101, 2.489845061869568, -10.358996098473584),
        (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
        _LAST,
        (*_LAST, 1.0),
        (*_LAST, 1.0, 1.0),
    ),
    e=(
        (),
        (-14.155112264123755,),
        (-17.97296035885952, -2.859693295451294),
        (147.12150275711716, -1.41221402718213, 71.68940251302358),
        (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
        (24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125,
         -0.6610691825249471),
        (30.91273214028599, -3.1208243349937974, 77.79954646070892, 34.28646028294783,
         -19.097331116725623, -28.087943162872662),
        (37.80277123390563, -3.2571969029072276, 112.26918849496327, 66.9347231244047,
         -40.06618937091002, -54.66780262877968, -9.48861652309627),
    ),
    b=(*_LAST, 1.0, 1.0, 1.0),
    c=(0.0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664, 1.0,
       1.0, 1.0),
    d=(0.21193756319429014, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734,
       2.325825639765069, 0.0, 0.0, 0.0),
    error=(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
    dense=(
        (25.948786856663858, -2.5579724845846235, 10.433815404888879, -2.3679251022685204,
         0.524948541321073, 1.1241088310450404, 0.4272876194431874, -0.17202221070155493),
        (-9.91568850695171, -0.9689944594115154, 3.0438037242978453, -24.495224566215796,
         20.176138334709044, 15.98066361424651, -6.789040303419874, -6.710236069923372),
        (11.419903575922262, 2.8879645146136994, 72.92137995996029, 80.12511834622643,
         -52.072871366152654, -59.78993625266729, -0.15582684282751913, 4.883087185713722),
    ),
    source="Steinebach, BIT Numerical Mathematics 63, 2023, article 27",
)  # fmt: skip
"""Rodas5P: order 5 with an estimate of order 4, stiffly accurate, dense output of order 4."""

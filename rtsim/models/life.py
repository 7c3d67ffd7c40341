"""Conway's Game of Life on a torus, as a population whose cells are updated simultaneously.

A cell is alive in the next generation if it has three living neighbours, or if it is alive and has
two. :func:`rtsim.discrete.population` calls ``rule`` for each cell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.discrete import population
from rtsim.equations.model import Model
from rtsim.scenario.scenario import Scenario

PATTERNS = {
    "blinker": ("###",),
    "block": ("##", "##"),
    "toad": (".###", "###."),
    "glider": (".#.", "..#", "###"),
    "r-pentomino": (".##", "##.", ".#."),
}


def rule(i: int, t: float, before: Any, u: Vector, p: Vector, after: Any) -> None:  # noqa: ARG001
    """Update cell ``i`` of a torus of ``p[0]`` by ``p[0]`` cells."""
    side = int(p[0])
    row, column = i // side, i % side
    near = 0.0
    for above in (-1, 0, 1):
        for left in (-1, 0, 1):
            if above != 0 or left != 0:
                near += before[0, (row + above) % side * side + (column + left) % side]
    after[0, i] = 1.0 if near == 3.0 or (near == 2.0 and before[0, i] == 1.0) else 0.0


def life(side: int, in_turn: bool = False) -> Model:
    """Return a torus of ``side`` rows and columns of cells.

    With ``in_turn=True``, the cells are updated one after another, which is a known modelling
    error.
    """
    return population(
        "life", side * side, Signals("alive"), rule,
        parameters=Signals(f"side = {side}"), in_turn=in_turn, assumptions=("a torus",),
    )  # fmt: skip


def placed(pattern: str, side: int, row: int = 1, column: int = 1) -> NDArray[np.float64]:
    """Return dead cells (side, side), with ``pattern`` placed at ``row`` and ``column``."""
    if pattern not in PATTERNS:
        raise UnknownName("pattern", pattern, sorted(PATTERNS))
    out = np.zeros((side, side))
    for down, line in enumerate(PATTERNS[pattern]):
        for right, mark in enumerate(line):
            out[(row + down) % side, (column + right) % side] = float(mark == "#")
    return out


def scenario(pattern: str = "glider", side: int = 8, generations: int = 100) -> Scenario:
    """Conway's Game of Life: ten generations per second, the first at 0.1 s."""
    out = Scenario("life", until=generations / 10)
    start = placed(pattern, side).ravel()
    tick = "1/10"
    out.plant("life", life(side), step=tick, update_period=tick, update_offset=tick,
              discrete={"alive": start})  # fmt: skip
    return out

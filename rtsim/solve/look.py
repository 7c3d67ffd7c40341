"""The layout of a guard table: the arrays with which the guards of a plant are watched.

A guard table is an argument table (:mod:`rtsim.equations.layout`) for the search for crossings;
code calls it ``look``.  :class:`rtsim.solve.guarded.Guarded` makes it; :mod:`rtsim.solve.flips`,
:mod:`rtsim.solve.locating` and the dense output in :mod:`rtsim.solve.legs` work on it.
"""

from __future__ import annotations

from rtsim.equations.layout import Layout

PARTS = (0.0, 1 / 1024, 1 / 4, 1 / 2, 3 / 4, 1023 / 1024, 1.0)
"""The points at which each guard is evaluated, as fractions of an internal step's length."""
POINTS = len(PARTS)

PHASE, TAKEN, LAST, END, BEGAN, DONE, TRIED, SPENT, WHOLE = range(9)
"""Elements of the array ``notes``:

- ``PHASE``: 0 before the first internal step of an advance, 1 after it, :data:`WAITING` while the
  advance is paused.
- ``TAKEN``: length of the internal step (s).
- ``LAST``: 1 if the internal step reaches the end of the advance, else 0.
- ``END``: the time at which the internal step ends (s).
- ``BEGAN``: the time at which the internal step begins (s).
- ``DONE``: length of the complete internal steps of a paused advance (s).
- ``TRIED``: number of internal steps of this advance so far, accepted or rejected.
- ``SPENT``: evaluations of the derivative since the advance began or continued.
- ``WHOLE``: 1 if the solver can repeat an internal step only up to a whole ns, else 0.
"""
NOTES = 9
WAITING = 2.0
"""The value of ``PHASE`` while an advance is paused between two internal steps."""

NOWHERE = -1.0
"""The value of ``flips[WHERE]`` for a guard that does not flip."""
WHERE, FROM, SIDE, RATE, LEVEL, STAYS = range(6)
"""Rows of the array ``flips``:

- ``WHERE``: the fraction of the internal step at which the guard flips, or :data:`NOWHERE`.
- ``FROM``: the last fraction before the flip at which the guard was evaluated.
- ``SIDE``: the sign of the guard after the flip; without a flip, at the beginning of the step.
- ``RATE``: the slope of the guard at the flip (1/s).
- ``LEVEL``: the value that the guard crosses: 0, or the value at which its reset left the guard.
- ``STAYS``: 1 if the guard reaches exactly 0 at the flip and stays there for a while, else 0.  An
  example is a condition that is 1.0 or 0.0.
"""
SIGN, CAME_TO, LEFT_AT, SIDE_BEFORE, LATE = range(5)
"""Rows of the arrays ``here`` and ``there``, which describe each guard at a tag:

- ``SIGN``: the sign of the guard; 0 if it is 0, or fired less than 1 ns before it reaches 0.
- ``CAME_TO``: if ``SIGN`` is 0 and the guard fired, the sign towards which it crosses; else 0.
- ``LEFT_AT``: the value at which a reset left a guard that it turned back, until the guard reaches
  0 again; else 0.  An example is a ball that its reset left slightly under the floor.
- ``SIDE_BEFORE``: the last sign of the guard that was not 0; 0 if there was none, or if the guard
  fired and is 0.
- ``LATE``: how long before the tag the state is (s), equal for all guards.  It is 0 except at an
  event: there the state is the one at which the guard crosses zero, up to 1 ns before the tag.
"""
ROWS = 5
"""The number of these rows."""

LAYOUT = Layout(
    "a guard table",
    ("guard", "slope"),
    {
        "now": ("states",),
        "z": ("discrete",),
        "u": ("inputs",),
        "p": ("parameters",),
        "out": ("states",),
        "notes": (NOTES,),
        "k": ("stages", "states"),
        "dense": ("stages", "degree"),
        "y": ("states",),
        "slopes": (2, "states"),
        "directions": ("guards",),
        "at_start": ("guards",),
        "here": (ROWS, "guards"),
        "there": (ROWS, "guards"),
        "sides": ("guards",),
        "signed": ("guards",),
        "fired": ("guards",),
        "g": (f"{POINTS} + 1", "guards"),
        "visits": (2, 2 * POINTS),
        "flips": (6, "guards"),
        "tried": (2,),
        "reached": (2,),
    },
)
"""The layout of a guard table.  The functions are the model's guards and its derivative.  The
arrays are:

- ``now``, ``out``: the state at the beginning and at the end of the internal step.
- ``k``, ``dense``: stages and dense output of an embedded pair, else empty.
- ``y``: the state at a fraction of the internal step.
- ``slopes``: the derivative at both ends of the internal step, for a solver without dense output.
- ``directions``: -1, 0 or 1 for each guard; ``at_start``: the same for a guard that fires at the
  start of the run if it begins beyond zero, else 0.
- ``here``, ``there``: the signs and other data of the guards at the beginning and at the end of
  the advance.
- ``sides``: the sign of each guard up to the present internal step; ``signed``: 1 if the guard had
  this sign at or after the beginning of the advance, 0 if it only came from there or has none.
- ``fired``: 1 for a guard that crosses at the end of the advance.
- ``g``: the guards at each of :data:`PARTS`, and one row for intermediate values.
- ``visits``: see :func:`rtsim.solve.flips.visits`.
- ``tried``: the ends (ns after the beginning of the advance) for which the first two rows of ``g``
  have the guards while a crossing is located; -1 for none.
- ``reached``: length of the advance (ns), and ``LATE`` at its end (s).
"""
AT = LAYOUT.at

"""What a model declares beside its signals: guards, timers, and functions with their arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.core.tag import Period

Equation = Callable[[float, Vector, Vector, Vector, Vector, Vector], None]
"""``equation(t, x, z, u, p, out)`` fills ``out``; t in s, x (n,), z (d,), u (m,), p (k,)."""
Update = Callable[[float, Vector, Vector, Vector, Vector], None]
"""``update(t, x, z, u, p)`` changes the discrete signals z in place, once per sample period."""
Reset = Callable[[int, float, Vector, Vector, Vector, Vector], None]
"""``reset(i, t, x, z, u, p)`` changes x and z in place when guard ``i`` fires."""
Tick = Callable[[Vector, float, Vector, Vector, Vector, Vector], None]
"""``tick(due, t, x, z, u, p)`` changes x and z in place; ``due[k]`` is 1 if timer ``k`` ticks now,
else 0."""
Constrained = Callable[[float, Vector, Vector, Vector, Vector, Vector, Vector], None]
"""An equation of a model with algebraic variables y: ``equation(t, x, y, z, u, p, out)``.

``residual`` fills one element for each of y.  A function ``mass`` fills a matrix (n, n)."""
ConstrainedReset = Callable[[int, float, Vector, Vector, Vector, Vector, Vector], None]
ConstrainedTick = Callable[[Vector, float, Vector, Vector, Vector, Vector, Vector], None]
Projection = Callable[[Vector], None]
"""``project(x)`` moves an accepted state to its manifold in place, such as a unit quaternion."""


@dataclass(frozen=True)
class Guard:
    """A function of the state that is watched for zero crossings.

    - ``direction``: 1 for a rising guard (from below zero to above it), -1 for a falling one, 0 for
      both.  A guard that is exactly zero when a step begins fires if it leaves zero in its
      direction; with direction 0 it does not fire.
    - ``terminal``: the run ends at the tag at which the guard fires.
    - ``stops``: the model's stop mode applies to this guard.
    - ``at_start``: the guard also fires at the start of the run, if it begins beyond zero in its
      direction; other guards fire only when they cross zero.
    - ``told``: names of scalar discrete signals; the event of the guard has their values after the
      reset, and the summary of the run prints them.
    - ``failure``: for a terminal guard, why the run counts as failed, such as a crash.  A run that
      such a guard ended has exit status 1.

    Raises :class:`ModelError` for an invalid name or direction, and for a failure of a guard that
    does not end the run.

    Example:
        Guard("floor", direction=-1)  # fires when its value falls through zero
    """

    name: str
    direction: int = 0
    terminal: bool = False
    stops: bool = True
    told: tuple[str, ...] = ()
    failure: str = ""
    at_start: bool = False

    def __post_init__(self) -> None:
        if self.at_start and self.direction == 0:
            raise ModelError(
                f"guard {self.name} has at_start but no direction, so no side is beyond zero; give "
                "direction=1 or -1"
            )
        if self.direction not in (-1, 0, 1):
            raise ModelError(f"guard {self.name} has direction {self.direction}; give -1, 0 or 1")
        if not self.name.isidentifier():
            raise ModelError(
                f"guard name {self.name!r} is not an identifier; use letters, digits and _"
            )
        if self.failure and not self.terminal:
            raise ModelError(
                f"guard {self.name} has a failure but does not end the run; give terminal=True"
            )


@dataclass(frozen=True)
class Timer:
    """Instants at which a model changes by itself.

    A timer ticks at ``offset_ns + round(k * period)`` ns for k = 0, 1, ...; with ``period=None``
    it ticks once, at ``offset_ns``.  ``draws`` names discrete signals.  Before each tick, each of
    their elements gets a new random number from N(0, 1), from a random stream named after the plant
    and the signal.  Raises :class:`ModelError` for a negative offset.
    """

    period: Period | None
    offset_ns: int = 0
    draws: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.offset_ns < 0:
            raise ModelError(
                f"a timer has an offset of {self.offset_ns} ns; the offset must be >= 0 ns"
            )

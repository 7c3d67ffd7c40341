"""Linear models: trim, linearisation, margins, cost of timing, exchange with python-control.

docs/linear.md contains examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.linear.crossings import Margins, margins
    from rtsim.linear.linearising import Loop, linearise, open_loop
    from rtsim.linear.state_space import Pole, StateSpace
    from rtsim.linear.timed_loops import timed_loop
    from rtsim.linear.timing_cost import JitterMargin, TimedLoop, TimingCost
    from rtsim.linear.trimming import Trim, trim

__all__ = [
    "JitterMargin",
    "Loop",
    "Margins",
    "Pole",
    "StateSpace",
    "TimedLoop",
    "TimingCost",
    "Trim",
    "linearise",
    "margins",
    "open_loop",
    "timed_loop",
    "trim",
]

__getattr__, __dir__ = lazy_exports(__name__)

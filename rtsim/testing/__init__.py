"""Conformance checks and test doubles for users' components.

No module of this package imports pytest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.testing.clock import FakeClock, check_clock
    from rtsim.testing.commands import check_command
    from rtsim.testing.components import check_component
    from rtsim.testing.controllers import check_controller
    from rtsim.testing.determinism import (
        check_determinism,
        held_average,
        mean_after,
        replicate,
        trace_of,
    )
    from rtsim.testing.faults import check_fault_kind
    from rtsim.testing.frames import check_frame_codec
    from rtsim.testing.latency import check_latency
    from rtsim.testing.media import check_medium
    from rtsim.testing.policies import check_overrun_policy
    from rtsim.testing.scheduling import check_scheduling_policy
    from rtsim.testing.solvers import check_solver, convergence
    from rtsim.testing.tasks import check_task
    from rtsim.testing.tolerances import Sufficient, sufficient_tolerance
    from rtsim.testing.verification import (
        check_analytic,
        check_degenerate,
        check_limit,
        check_mean,
        check_order,
        order_of,
    )

__all__ = [
    "FakeClock",
    "Sufficient",
    "check_analytic",
    "check_clock",
    "check_command",
    "check_component",
    "check_controller",
    "check_degenerate",
    "check_determinism",
    "check_fault_kind",
    "check_frame_codec",
    "check_latency",
    "check_limit",
    "check_mean",
    "check_medium",
    "check_order",
    "check_overrun_policy",
    "check_scheduling_policy",
    "check_solver",
    "check_task",
    "convergence",
    "held_average",
    "mean_after",
    "order_of",
    "replicate",
    "sufficient_tolerance",
    "trace_of",
]

__getattr__, __dir__ = lazy_exports(__name__)

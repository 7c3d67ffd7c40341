"""Processors, scheduling policies and servers, and the analysis of schedules and of chains.

docs/processors.md and docs/chains.md contain examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.components.processor_tasks import Segment
    from rtsim.components.scheduling import (
        ConstantBandwidth,
        RoundRobin,
        SchedulingPolicy,
        Server,
        Sporadic,
        add_scheduling_policy,
    )
    from rtsim.record.ages import Ages, ages
    from rtsim.schedules.chains import ChainBound, chain_bound
    from rtsim.schedules.response_times import TaskAnalysis, analyse
    from rtsim.schedules.table import schedule_table

__all__ = [
    "Ages",
    "ChainBound",
    "ConstantBandwidth",
    "RoundRobin",
    "SchedulingPolicy",
    "Segment",
    "Server",
    "Sporadic",
    "TaskAnalysis",
    "add_scheduling_policy",
    "ages",
    "analyse",
    "chain_bound",
    "schedule_table",
]

__getattr__, __dir__ = lazy_exports(__name__)

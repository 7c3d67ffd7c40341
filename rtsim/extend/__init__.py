"""Base classes, contracts and registrations for packages that extend rtsim.

docs/extending.md has examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.components.allowed_latency import LATENCY_MODELS, read_latency_model
    from rtsim.components.bus import Topic
    from rtsim.components.controller import ControllerProtocol
    from rtsim.components.external_inputs import ExternalInput
    from rtsim.components.latency import LatencyModel
    from rtsim.components.lines import Lines, Openings
    from rtsim.components.medium import (
        Carrier,
        Hop,
        Medium,
        MediumLine,
        PeriodicSender,
        RunningMedium,
        SenderLoad,
        SharedTransport,
        Transmission,
    )
    from rtsim.components.networks import MEDIA
    from rtsim.components.ports import SignalPort
    from rtsim.components.scheduling import SchedulingPolicy, add_scheduling_policy
    from rtsim.components.tasks import Ticking
    from rtsim.core.clock import Wake
    from rtsim.core.tag import Period, Tag
    from rtsim.engine.faults import fault_of
    from rtsim.engine.faults.at_messages import MessageFault
    from rtsim.engine.faults.at_signals import SignalFault
    from rtsim.engine.faults.description import add_fault_kind
    from rtsim.engine.faults.kind import Parameter
    from rtsim.engine.faults.line_kinds import LineFault
    from rtsim.equations.model import bind
    from rtsim.pilot.devices.mapping import read_mapping
    from rtsim.pilot.scenes.checking import check_scene
    from rtsim.pilot.scenes.scene import SceneMoment, Shown
    from rtsim.record.export import EXPORTS
    from rtsim.scenario.component import (
        Built,
        Component,
        Settable,
        Site,
        Validity,
        changeable,
        initials,
    )
    from rtsim.timing.policy import Policy, add_policy

__all__ = [
    "EXPORTS",
    "LATENCY_MODELS",
    "MEDIA",
    "Built",
    "Carrier",
    "Component",
    "ControllerProtocol",
    "ExternalInput",
    "Hop",
    "LatencyModel",
    "LineFault",
    "Lines",
    "Medium",
    "MediumLine",
    "MessageFault",
    "Openings",
    "Parameter",
    "Period",
    "PeriodicSender",
    "Policy",
    "RunningMedium",
    "SceneMoment",
    "SchedulingPolicy",
    "SenderLoad",
    "Settable",
    "SharedTransport",
    "Shown",
    "SignalFault",
    "SignalPort",
    "Site",
    "Tag",
    "Ticking",
    "Topic",
    "Transmission",
    "Validity",
    "Wake",
    "add_fault_kind",
    "add_policy",
    "add_scheduling_policy",
    "bind",
    "changeable",
    "check_scene",
    "fault_of",
    "initials",
    "read_latency_model",
    "read_mapping",
]

__getattr__, __dir__ = lazy_exports(__name__)

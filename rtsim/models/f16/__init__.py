"""NASA's F-16: aircraft, trim, controller, guidance and check cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.models.f16.by_wire import STICK
    from rtsim.models.f16.dispersed import study
    from rtsim.models.f16.ground_avoidance import scenario as f16_gcas
    from rtsim.models.f16.one_processor import scenario as f16_processor
    from rtsim.models.f16.one_processor import uno_cycles
    from rtsim.models.f16.piloted_scenario import scenario as f16_by_hand
    from rtsim.models.f16.plant import F16
    from rtsim.models.f16.processor_study import growth, slowest_speed
    from rtsim.models.f16.processor_study import study as speed_study
    from rtsim.models.f16.required import REQUIREMENTS
    from rtsim.models.f16.scenario import case
    from rtsim.models.f16.scenario import scenario as f16
    from rtsim.models.f16.stevens_lewis import STEVENS_LEWIS

__all__ = [
    "F16",
    "REQUIREMENTS",
    "STEVENS_LEWIS",
    "STICK",
    "case",
    "f16",
    "f16_by_hand",
    "f16_gcas",
    "f16_processor",
    "growth",
    "slowest_speed",
    "speed_study",
    "study",
    "uno_cycles",
]

__getattr__, __dir__ = lazy_exports(__name__)

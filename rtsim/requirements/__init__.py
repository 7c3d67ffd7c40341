"""Requirements in signal temporal logic, with their robustness and verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.requirements.requirement import Requirement, read_requirements
    from rtsim.requirements.verdict import RequirementResult, check

__all__ = ["Requirement", "RequirementResult", "check", "read_requirements"]

__getattr__, __dir__ = lazy_exports(__name__)

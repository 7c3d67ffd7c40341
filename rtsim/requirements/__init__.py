"""Requirements in signal temporal logic: their language, their robustness and their verdicts."""

from rtsim.requirements.requirement import (
    Requirement,
    RequirementResult,
    check,
    read_requirements,
)

__all__ = ["Requirement", "RequirementResult", "check", "read_requirements"]

"""The requirements of the benchmarks, by name."""

from __future__ import annotations

from pathlib import Path

from rtsim.core.errors import UnknownName
from rtsim.core.tag import NS_PER_S
from rtsim.requirements.language import horizon, parse
from rtsim.requirements.requirement import Requirement, read_requirements

TRANSMISSION = Path(__file__).with_name("transmission.toml")
CARS = Path(__file__).with_name("cars.toml")


def required(file: Path, name: str) -> Requirement:
    """Return the requirement ``name`` of ``file``; raise ``UnknownName`` for other names."""
    found = {one.name: one for one in read_requirements(file)}
    if name not in found:
        raise UnknownName("requirement", name, found)
    return found[name]


def end(requirement: Requirement) -> float:
    """Return the time (s) that a run needs to decide ``requirement``."""
    last = horizon(parse(requirement.formula))
    assert last is not None  # each requirement of the benchmarks has a bound
    return last / NS_PER_S

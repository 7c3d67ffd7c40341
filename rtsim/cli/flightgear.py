"""FlightGear as the outside window of a run: its options, and its process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rtsim.cli.common import F
from rtsim.core.errors import ScenarioError
from rtsim.pilot.processes import FLIGHTGEAR_VERSIONS, FlightGearProcess
from rtsim.scenario.component import readable
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import PlantComponent

if TYPE_CHECKING:
    from rtsim.pilot.flightgear import Address


def flightgear_options(command: F) -> F:
    """Decorator: add the options of FlightGear, passed to ``command`` as ``outside``."""

    @wraps(command)
    def given(flightgear: str | None, flightgear_version: str, **options: Any) -> Any:
        version = int(flightgear_version)
        if flightgear is None:
            if version != FLIGHTGEAR_VERSIONS[0]:
                raise ScenarioError("--flightgear-version works only with --flightgear HOST")
            return command(outside=None, **options)
        from rtsim.pilot.flightgear import Address, Packets

        Packets(version)  # an error before the run if the package is missing
        return command(outside=OutsideWindow(Address.of(flightgear), version), **options)

    options = (
        click.option(
            "--flightgear",
            metavar="HOST[:PORT]",
            help="Show the outside view in FlightGear, which runs on HOST with "
            "--fdm=null --native-fdm=socket,in,60,,5500,udp.",
        ),
        click.option(
            "--flightgear-version",
            type=click.Choice([str(version) for version in FLIGHTGEAR_VERSIONS]),
            default=str(FLIGHTGEAR_VERSIONS[0]),
            show_default=True,
            help="Version of FlightGear's native protocol: 24 for FlightGear 2020.3.",
        ),
    )
    decorated: Any = given
    for option in reversed(options):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


@dataclass
class OutsideWindow:
    """The FlightGear that shows a run, and the numbers of packets that were sent to it."""

    address: Address
    version: int
    figures: dict[str, Any] | None = None
    """Numbers of packets, known after the end; ``None`` if the process was killed."""

    @contextmanager
    def showing(self, scenario: Scenario, shared: Path) -> Iterator[None]:
        """Context in which a process sends the run's states to FlightGear."""
        from rtsim.pilot.flightgear import outside_body

        plants = {
            name: readable(plant, scenario.components)
            for name, plant in scenario.of(PlantComponent).items()
        }
        body = json.dumps(outside_body(scenario.bodies, plants, scenario.name).to_plain())
        process = FlightGearProcess(shared, str(self.address), body, self.version)
        with process:
            yield
        self.figures = process.figures

    def told(self) -> str:
        """Return one line for the summary of the run."""
        if self.figures is None:
            return f"FlightGear at {self.address}: the process that sends to it ended early"
        lost = self.figures["lost"]
        return f"FlightGear at {self.address}: {self.figures['sent']} packets sent" + (
            f", {lost} could not be sent" if lost else ""
        )

    def to_json(self) -> dict[str, Any]:
        return {"address": str(self.address), **(self.figures or {"ended_early": True})}

"""A scenario, flown with its design or with C in the place of its controllers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from hitl.building.build import PLAIN
from hitl.controllers.sil import CASES, SilController
from rtsim.components.controller import Controller
from rtsim.components.latency import Latencies, latency_of
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import Duration
from rtsim.engine.faults import Fault
from rtsim.engine.faults.reading import Given, gather
from rtsim.record.memory_recorder import MemoryRecorder
from rtsim.record.reading import Recording
from rtsim.runs.simulation import MAX, Pace, RunResult, simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario

HERE = Path()
Reference = str | Path | Scenario | Callable[..., Scenario]
"""A built-in name, FILE.py[:FUNCTION], a scenario, or the function that makes one."""
InPlace = Mapping[str, str | Path | Controller]
"""Part name to interface file, or to a controller."""


def made(reference: Reference, settings: Mapping[str, object]) -> Scenario:
    """The scenario, its own copy; ``settings`` are arguments (``case``) and values (``f16.cg``)."""
    if isinstance(reference, str | Path):
        return load_scenario(str(reference), {k: _text(v) for k, v in settings.items()})
    values = {k: v for k, v in settings.items() if "." in k}
    arguments = {k: v for k, v in settings.items() if "." not in k}
    if isinstance(reference, Scenario):
        if arguments:
            raise ScenarioError(
                f"{', '.join(arguments)}: {reference.name} is made already; give the function that "
                "makes it, or set values by part: **{'plant.mass': 2.0}"
            )
        scenario = reference.copy()
    else:
        scenario = reference(**arguments)
    for target, value in values.items():
        scenario.set(target, value)
    return scenario


def _text(value: object) -> str:
    """As ``--set`` would be given it, every bit kept."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(str(v) for v in np.asarray(value).ravel().tolist())


def beside(folder: Path, reference: Reference) -> Reference:
    """A Python file is meant relative to ``folder``; anything else stays what it is."""
    if isinstance(reference, Path) or (isinstance(reference, str) and ".py" in reference):
        return str(folder / reference)
    return reference


def faults_beside(folder: Path, given: Given | Sequence[Given]) -> tuple[Fault, ...]:
    """Checked faults; files are relative to ``folder``."""
    single = isinstance(given, str | Path | Fault | Mapping)
    several: Sequence[Given] = [given] if single else given  # type: ignore[assignment,list-item]
    return gather(folder / one if isinstance(one, str | Path) else one for one in several)


def interface_beside(folder: Path, reference: str | Path) -> str:
    """An interface file is meant relative to ``folder``; one that ships stays what it is."""
    ships = str(reference).startswith("firmware/") and not (folder / "firmware").exists()
    return str(reference) if ships else str(folder / reference)


def in_c(
    controllers: InPlace, kind: str = PLAIN, cases: Path = CASES, folder: Path = HERE
) -> dict[str, Controller]:
    """Built, not started; interface files are relative to ``folder``.

    What is a controller already stays as it is.
    """
    _check_named(controllers)
    return {
        name: SilController(interface_beside(folder, given), kind=kind, cases=cases)
        if isinstance(given, str | Path)
        else given
        for name, given in controllers.items()
    }


def _check_named(controllers: object) -> None:
    if not isinstance(controllers, Mapping):
        raise ScenarioError(
            f"which controller does {str(controllers)!r} replace? "
            f"write {{'controller': {str(controllers)!r}}}, with its name in the scenario"
        )


def plant(scenario: Reference, /, **settings: object) -> TestPlant:
    """A scenario to be flown; ``settings`` are its arguments, and values as ``part.name``."""
    return TestPlant(scenario, settings)


class TestPlant:
    """Flies its scenario afresh each time, and keeps the last recording, also of a failure.

    Files are relative to ``folder``; what goes wrong is saved below ``cases``.
    """

    def __init__(
        self,
        scenario: Reference,
        settings: Mapping[str, object],
        *,
        cases: Path = CASES,
        folder: Path = HERE,
    ) -> None:
        self._cases, self._folder = cases, folder
        self._reference, self._settings = beside(folder, scenario), dict(settings)
        self.scenario = made(self._reference, self._settings)
        """As it would fly with its design."""
        self.recording: Recording | None = None
        self.outcome: RunResult | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is left open: each flight has closed what it started."""

    def fly(
        self,
        controllers: InPlace | None = None,
        *,
        until: Duration | None = None,
        pace: Pace | str | float = MAX,
        seed: int = 0,
        latency: Latencies = None,
        late: str | None = None,
        failure: str | None = None,
        build: str = PLAIN,
        faults: Given | Sequence[Given] = (),
    ) -> Recording:
        """The recording of a flight, in memory; without ``controllers`` the design flies.

        ``faults`` are those of :meth:`Scenario.faults`, one or several; files are relative to
        ``folder``.

        ``latency`` (s), ``late`` and ``failure`` are those of :meth:`Scenario.replace_controller`.
        """
        scenario = made(self._reference, self._settings)
        scenario.faults(*faults_beside(self._folder, faults))
        flown = in_c(controllers or {}, build, self._cases, self._folder)
        for name, controller in flown.items():
            scenario.replace_controller(
                name, controller, latency=latency_of(name, latency), late=late, failure=failure
            )
        recorder = MemoryRecorder()
        self.outcome = None
        try:
            self.outcome = simulate(scenario, seed=seed, pace=pace, until=until, recorder=recorder)
        finally:
            self.recording = recorder.recording()
        return self.recording

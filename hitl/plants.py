"""``plant``: a scenario for users' tests, with its reference controllers or with C code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from hitl.building.build import PLAIN
from hitl.controllers.board import BoardController
from hitl.controllers.c_controller import CController
from hitl.controllers.sil import CASES, SilController
from rtsim.components.allowed_latency import Latencies, latency_of
from rtsim.components.controller import ControllerProtocol
from rtsim.components.latency import ZERO
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S, Duration
from rtsim.engine.faults import Fault
from rtsim.engine.faults.description import Given, gather
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.request import MAX, Pace
from rtsim.runs.result import RunResult
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ControllerComponent
from rtsim.studies.counterexample import Counterexample

HERE = Path()
Reference = str | Path | Scenario | Callable[..., Scenario]
"""A scenario: a built-in name, FILE.py[:FUNCTION], a Scenario, or a function that makes one."""
InPlace = Mapping[str, str | Path | ControllerProtocol]
"""Interface file or controller, by the name of the component that it replaces."""


def made(reference: Reference, settings: Mapping[str, object]) -> Scenario:
    """Return a copy of the scenario with ``settings`` for arguments and parameters.

    Arguments have plain names (``case``); parameters have a component's name (``f16.cg``).

    Raises ``ScenarioError`` for arguments if the scenario is already an object.
    """
    if isinstance(reference, str | Path):
        return load_scenario(str(reference), {k: _text(v) for k, v in settings.items()})
    values = {k: v for k, v in settings.items() if "." in k}
    arguments = {k: v for k, v in settings.items() if "." not in k}
    if isinstance(reference, Scenario):
        if arguments:
            raise ScenarioError(
                f"the arguments {', '.join(arguments)} cannot be set, because scenario "
                f"{reference.name} is made already; give the function that makes the scenario, or "
                "set parameters by name: **{'plant.mass': 2.0}"
            )
        scenario = reference.copy()
    else:
        scenario = reference(**arguments)
    for target, value in values.items():
        scenario.set(target, value)
    return scenario


def counterexample(
    path: str | Path,
    controllers: InPlace | None = None,
    /,
    *,
    board: str | None = None,
    latency: Latencies = None,
    cases: Path = CASES,
    folder: Path = HERE,
) -> RunResult:
    """Run a counterexample file, and return the result with the verdict on its requirement.

    Args:
        path: The file, relative to ``folder``.
        controllers: Interface file for each controller in C, by component name. In a scenario with
            one controller, the name can be ``""``. By default, the controllers of the scenario run.
        board: URL of the board that runs the C code. Without ``controllers``, the board runs the
            scenario's controllers in C.
        latency: Compute latency of these controllers, s. The default is the latency in the scenario
            or, on a board, half of the period.
        cases: Folder for failed steps.
        folder: Folder of relative paths.
    """
    example = Counterexample.open(folder / path)
    scenario = example.make()
    parts = scenario.of(ControllerComponent)
    given = controllers or {}
    if "" in given and len(parts) == 1:
        given = {next(iter(parts)): given[""]}
    runs: dict[str, ControllerProtocol] = in_c(given, cases=cases, folder=folder)
    if board is not None:
        if not runs:
            runs = {n: one.controller for n, one in parts.items()
                    if isinstance(one.controller, CController)}  # fmt: skip
        if not runs:
            raise ScenarioError(
                f"{path}: the scenario {example.scenario} has no C controller that {board} could "
                "run; give the interface file: --in-c NAME=INTERFACE.toml"
            )
        if others := [name for name, one in runs.items() if not isinstance(one, CController)]:
            raise ScenarioError(
                f"{path}: {board} runs C code only, but {', '.join(others)} is another controller; "
                "give its interface file"
            )
        runs = {
            name: BoardController(one.interface, url=board, cases=cases)
            for name, one in runs.items()
            if isinstance(one, CController)
        }
    for name, controller in runs.items():
        allowed, part = latency_of(name, latency), parts.get(name)
        if board and allowed is None and part and part.period and part.compute == ZERO:
            allowed = str(part.period.ns / (2 * NS_PER_S))
        scenario.replace_controller(name, controller, latency=allowed)
    return simulate(scenario, seed=example.seed)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(str(v) for v in np.asarray(value).ravel().tolist())


def reference_in(folder: Path, reference: Reference) -> Reference:
    """Return ``folder`` / ``reference`` for the path of a Python file, else ``reference``."""
    if isinstance(reference, Path) or (isinstance(reference, str) and ".py" in reference):
        return str(folder / reference)
    return reference


def faults_in(folder: Path, given: Given | Sequence[Given]) -> tuple[Fault, ...]:
    """Return faults from files or mappings; paths are relative to ``folder``."""
    single = isinstance(given, str | Path | Fault | Mapping)
    several: Sequence[Given] = [given] if single else given  # type: ignore[assignment,list-item]
    return gather(folder / one if isinstance(one, str | Path) else one for one in several)


def interface_in(folder: Path, reference: str | Path) -> str:
    """Return the path of an interface file relative to ``folder``."""
    ships = str(reference).startswith("firmware/") and not (folder / "firmware").exists()
    return str(reference) if ships else str(folder / reference)


def in_c(
    controllers: InPlace, kind: str = PLAIN, cases: Path = CASES, folder: Path = HERE
) -> dict[str, ControllerProtocol]:
    """Return the controllers by component name, not yet started.

    Files are relative to ``folder``. Controllers among the entries are returned unchanged. ``kind``
    is the kind of build, and ``cases`` the folder for failed steps.
    """
    _check_named(controllers)
    return {
        name: SilController(interface_in(folder, given), kind=kind, cases=cases)
        if isinstance(given, str | Path)
        else given
        for name, given in controllers.items()
    }


def _check_named(controllers: object) -> None:
    if not isinstance(controllers, Mapping):
        raise ScenarioError(
            f"{str(controllers)!r} does not say which controller it replaces; write "
            f"{{'controller': {str(controllers)!r}}}, with the controller's name in the scenario"
        )


def plant(scenario: Reference, /, **settings: object) -> PlantFixture:
    """Return a scenario to run in a test, with ``settings`` for its arguments and parameters.

    Example::

        with plant("scenario.py", setpoint=80.0) as motor:
            recording = motor.fly({"controller": "motor.toml"}, until=1.5)
    """
    return PlantFixture(scenario, settings)


class PlantFixture:
    """A scenario for several runs, with the recording of the last run.

    The recording of a failed run is also available. Paths of files are relative to ``folder``.
    Failed steps are saved below ``cases``. ``before`` is called before each run; an error in it
    prevents the run.
    """

    def __init__(
        self,
        scenario: Reference,
        settings: Mapping[str, object],
        *,
        cases: Path = CASES,
        folder: Path = HERE,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        self._cases, self._folder, self._before = cases, folder, before
        self._reference, self._settings = reference_in(folder, scenario), dict(settings)
        self.scenario = made(self._reference, self._settings)
        """The scenario with its reference models."""
        self.recording: Recording | None = None
        self.outcome: RunResult | None = None
        """The result of the last run; ``None`` if it raised an error."""
        self.outcomes: list[RunResult] = []
        """The results of all runs that raised no error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

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
        """Run the scenario, and return its recording in memory.

        ``controllers`` contains interface files by the names of the components that they replace.
        Without ``controllers``, the reference models run. ``until`` is the end time, s. ``latency``
        (s), ``late`` and ``failure`` are those of :meth:`Scenario.replace_controller`, ``faults``
        those of :meth:`Scenario.faults`. ``build`` is the kind of build. Errors are raised;
        ``self.recording`` then contains the run up to the error.
        """
        self._before()
        scenario = made(self._reference, self._settings)
        scenario.faults(*faults_in(self._folder, faults))
        run_in_c = in_c(controllers or {}, build, self._cases, self._folder)
        for name, controller in run_in_c.items():
            scenario.replace_controller(
                name, controller, latency=latency_of(name, latency), late=late, failure=failure
            )
        recorder = MemoryRecorder()
        self.outcome = None
        try:
            self.outcome = simulate(scenario, seed=seed, pace=pace, until=until, recorder=recorder)
            self.outcomes.append(self.outcome)
        finally:
            self.recording = recorder.recording()
        return self.recording

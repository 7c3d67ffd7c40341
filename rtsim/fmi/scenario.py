"""The scenario of a single FMU, for ``rtsim run FILE.fmu`` and other commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rtsim.fmi.importing import Fmu
from rtsim.scenario.scenario import Scenario

_UNTIL_S = 10.0
_STEPS = 1000


def maker(path: Path) -> Callable[..., Scenario]:
    """Return the function that makes the scenario of the FMU at ``path``."""

    def scenario(
        kind: str = "",
        step: float = 0.0,
        until: float = 0.0,
        solver: str = "dp54",
        observe: str = "",
        in_process: bool = False,
    ) -> Scenario:
        """Return a scenario with the FMU as its only plant, and the start values of its inputs.

        Without ``until`` (s), the run ends at the stop time of the FMU's default experiment, or at
        10 s.  Without ``step`` (s), the FMU's step size is used, or 1000 steps.  ``observe``
        contains names of variables, separated by commas.
        """
        names = [name.strip() for name in observe.split(",") if name.strip()]
        fmu = Fmu(path, kind=kind or None, observe=names, in_process=in_process)
        experiment = fmu.description.xml.defaultExperiment
        end = until or float(getattr(experiment, "stopTime", None) or _UNTIL_S)
        length = step or float(getattr(experiment, "stepSize", None) or end / _STEPS)
        name = fmu.interface.name
        out = Scenario(name, until=end)
        out.plant(name, fmu, step=length, solver=solver)
        return out

    return scenario

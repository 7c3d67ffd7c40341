"""The scenario of a single FMU, for ``rtsim run FILE.fmu`` and other commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rtsim.core.errors import ScenarioError
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
        solver: str = "",
        observe: str = "",
        parameters: str = "",
        in_process: bool = False,
    ) -> Scenario:
        """Return a scenario with the FMU as its only plant, and the start values of its inputs.

        Without ``until`` (s), the run ends at the stop time of the FMU's default experiment, or at
        10 s.  Without ``step`` (s), the FMU's step size is used, or 1000 steps.  ``solver``
        integrates a Model Exchange FMU; the default is ``"dp54"``.  ``observe`` contains names of
        variables, separated by commas.  ``parameters`` contains ``NAME=VALUE``, separated by
        commas; the values can be texts and names of enumeration items.
        """
        fmu = Fmu(
            path, kind=kind or None, observe=_listed(observe), parameters=_assigned(parameters),
            in_process=in_process,
        )  # fmt: skip
        experiment = fmu.description.xml.defaultExperiment
        end = until or float(getattr(experiment, "stopTime", None) or _UNTIL_S)
        length = step or float(getattr(experiment, "stepSize", None) or end / _STEPS)
        name = fmu.interface.name
        out = Scenario(name, until=end)
        own = fmu.interface.exchange
        out.plant(name, fmu, step=length, solver=solver or ("dp54" if own else None))
        return out

    return scenario


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _assigned(text: str) -> dict[str, object]:
    out: dict[str, object] = {}
    for one in _listed(text):
        name, equals, value = one.partition("=")
        if not equals:
            raise ScenarioError(f"parameters = {text!r}; write NAME=VALUE, separated by commas")
        try:
            out[name.strip()] = float(value)
        except ValueError:
            out[name.strip()] = value.strip()
    return out

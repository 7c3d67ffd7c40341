"""Finding a scenario by what the user typed: a name, or a Python file."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from rtsim.errors import ScenarioError, UnknownName
from rtsim.scenario import Scenario

BUILT_IN = {
    "f16": "rtsim.models.f16.scenario:scenario",
    "nesc": "rtsim.models.nesc:scenario",
    "orbit": "rtsim.models.orbit:scenario",
    "unstable": "rtsim.models.unstable:scenario",
    "valves": "rtsim.models.valves:scenario",
}
"""Name to ``module:function``; packages add to it by the entry point ``rtsim.scenarios``."""

Maker = Callable[..., Scenario]


def known_scenarios() -> dict[str, str]:
    """Every scenario that can be run by its name."""
    found = dict(BUILT_IN)
    for entry in entry_points(group="rtsim.scenarios"):
        found.setdefault(entry.name, entry.value)
    return found


def find_maker(reference: str) -> Maker:
    """The function behind ``name`` or ``path/to/file.py[:function]``."""
    path, _, function = reference.partition(".py")
    if reference.endswith(".py") or function.startswith(":"):
        return _from_file(Path(path + ".py"), function.lstrip(":") or "scenario")
    scenarios = known_scenarios()
    if reference not in scenarios:
        raise UnknownName("scenario", reference, sorted(scenarios), "rtsim scenarios")
    module, _, name = scenarios[reference].partition(":")
    return _function(importlib.import_module(module), name)


def _from_file(path: Path, name: str) -> Maker:
    if not path.is_file():
        raise ScenarioError(f"no file {path}; give a Python file with a function scenario()")
    module_name = f"rtsim_scenario_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ScenarioError(f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    return _function(module, name)


def _function(module: ModuleType, name: str) -> Maker:
    maker = getattr(module, name, None)
    if not callable(maker):
        functions = [n for n, f in vars(module).items() if inspect.isfunction(f)]
        raise UnknownName("function", name, functions, str(module.__file__))
    return maker  # type: ignore[no-any-return]


def load_scenario(reference: str, settings: Mapping[str, str] | None = None) -> Scenario:
    """Make the scenario; ``settings`` are its arguments (``case``) and values (``f16.cg``).

    Arguments are read as their defaults are typed; values as numbers, several separated by commas.
    """
    maker = find_maker(reference)
    settings = dict(settings or {})
    parameters = inspect.signature(maker).parameters
    arguments: dict[str, Any] = {}
    for key, text in settings.items():
        if "." not in key:
            if key not in parameters:
                raise UnknownName("argument", key, parameters, f"scenario {reference}")
            arguments[key] = _typed(key, text, parameters[key].default)
    scenario = maker(**arguments)
    if not isinstance(scenario, Scenario):
        raise ScenarioError(f"{reference} made a {type(scenario).__name__}, not a Scenario")
    for key, text in settings.items():
        if "." in key:
            scenario.set(key, _numbers(key, text))
    scenario.origin = {"reference": reference, "settings": settings}
    return scenario


def _typed(key: str, text: str, default: object) -> object:
    if isinstance(default, bool):
        if text.lower() in ("true", "false", "1", "0", "yes", "no"):
            return text.lower() in ("true", "1", "yes")
        raise ScenarioError(f"{key}={text!r}: expected true or false")
    if isinstance(default, str):
        return text
    values = _numbers(key, text)
    if isinstance(values, list):
        raise ScenarioError(f"{key}={text!r}: expected one number")
    return int(values) if isinstance(default, int) and float(values).is_integer() else values


def _numbers(key: str, text: str) -> float | list[float]:
    try:
        values = [float(v) for v in text.split(",")]
    except ValueError:
        raise ScenarioError(f"{key}={text!r} is not a number; write --set {key}=1.5") from None
    return values[0] if len(values) == 1 else values

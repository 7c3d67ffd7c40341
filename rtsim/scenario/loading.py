"""Finding a scenario by what the user typed: a name, or a Python file."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from importlib.metadata import entry_points
from pathlib import Path
from traceback import FrameSummary
from types import CodeType, ModuleType
from typing import Any

from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.file_hash import file_hash
from rtsim.core.raised import from_outside, own_frames
from rtsim.scenario.scenario import Scenario

BUILT_IN = {
    "ball": "rtsim.models.ball:scenario",
    "fox-and-rabbit": "rtsim.models.chase:scenario",
    "f16": "rtsim.models.f16.scenario:scenario",
    "f16-by-hand": "rtsim.models.f16.piloted:scenario",
    "job-shop": "rtsim.models.job_shop:scenario",
    "life": "rtsim.models.life:scenario",
    "machine-shop": "rtsim.models.machine_shop:scenario",
    "nesc": "rtsim.models.nesc:scenario",
    "orbit": "rtsim.models.orbit:scenario",
    "queue": "rtsim.models.queues:scenario",
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


def file_of(reference: str) -> Path | None:
    """The Python file that ``reference`` names; ``None`` for a scenario that is called by name."""
    path, _, function = reference.partition(".py")
    named = reference.endswith(".py") or function.startswith(":")
    return Path(path + ".py") if named else None


def find_maker(reference: str) -> Maker:
    """The function behind ``name`` or ``path/to/file.py[:function]``."""
    path = file_of(reference)
    if path is not None:
        _, _, function = reference.partition(".py")
        return _from_file(path, function.lstrip(":") or "scenario")
    scenarios = known_scenarios()
    if reference not in scenarios:
        raise _unknown(reference, sorted(scenarios))
    module, _, name = scenarios[reference].partition(":")
    with _users_code(reference):
        found = importlib.import_module(module)
    return _function(found, name)


def _unknown(reference: str, scenarios: list[str]) -> ScenarioError:
    """What the user may have meant: a file beside, a recording, or another name."""
    beside = Path(f"{reference}.py")
    if beside.is_file():
        return ScenarioError(
            f"no scenario is called {reference!r}; for the file: rtsim run {beside}"
        )
    if reference.endswith(".mcap"):
        return ScenarioError(f"{reference} is a recording: rtsim replay {reference}")
    return UnknownName("scenario", reference, scenarios, "rtsim scenarios")


@contextmanager
def _users_code(whose: str) -> Iterator[None]:
    """What code of the user raises is told in one line, and where in the user's own files."""
    try:
        yield
    except RtsimError:
        raise
    except SyntaxError as error:
        line = f": {error.text.strip()}" if error.text else ""
        raise ScenarioError(f"{error.filename}:{error.lineno}: {error.msg}{line}") from error
    except BaseException as error:
        if from_outside(error):
            raise
        frames = "".join(f"\n  {line}" for line in _shown(own_frames(error)))
        raise ScenarioError(f"{whose} raised {type(error).__name__}: {error}{frames}") from error


_SHOWN = 3


def _shown(frames: list[FrameSummary]) -> list[str]:
    """The first and the last frames: a function that calls itself has a thousand."""
    lines = [f"{f.filename}:{f.lineno} {f.line}" for f in frames]
    left_out = len(lines) - 2 * _SHOWN
    if left_out <= 1:
        return lines
    return [*lines[:_SHOWN], f"... {left_out} calls more ...", *lines[-_SHOWN:]]


class _FromSource(SourceFileLoader):
    """Compiles the file each time: bytecode is kept by size and second, and an edit may change
    neither.  A scenario that is changed and run by one command must not be the one before."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _from_file(path: Path, name: str) -> Maker:
    if not path.is_file():
        raise ScenarioError(f"no file {path}; give a Python file with a function scenario()")
    module_name = f"rtsim_scenario_{path.stem}"
    loader = _FromSource(module_name, str(path))
    spec = importlib.util.spec_from_file_location(module_name, path, loader=loader)
    if spec is None or spec.loader is None:
        raise ScenarioError(f"{path} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    with _users_code(str(path)):
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
    hashed = _hash_of(reference)  # of what is about to run, before it can change anything
    maker = find_maker(reference)
    settings = dict(settings or {})
    parameters = _parameters(maker, reference)
    arguments: dict[str, Any] = {}
    for key, text in settings.items():
        if "." not in key:
            if key not in parameters:
                raise UnknownName("argument", key, parameters, f"scenario {reference}")
            arguments[key] = _typed(key, text, parameters[key].default)
    _check_complete(reference, parameters, arguments)
    with _users_code(reference):
        scenario = maker(**arguments)
    if not isinstance(scenario, Scenario):
        raise ScenarioError(
            f"{reference} made a {type(scenario).__name__}, not a Scenario; return the Scenario "
            "from it, or name the function that does: FILE.py:FUNCTION"
        )
    for key, text in settings.items():
        if "." in key:
            scenario.set(key, _numbers(key, text))
    scenario.origin = {"reference": _from_anywhere(reference), "settings": settings, **hashed}
    return scenario


def _hash_of(reference: str) -> dict[str, str]:
    """What a file holds, so that who runs it again knows it before."""
    path = file_of(reference)
    try:
        return {} if path is None else {"sha256": file_hash(path)}
    except OSError:
        return {}  # said where it is loaded


def _from_anywhere(reference: str) -> str:
    """A file by its full path, so that a replay finds it from another folder too."""
    path, dot_py, function = reference.partition(".py")
    return f"{Path(path + dot_py).resolve()}{function}" if dot_py else reference


def _parameters(maker: Maker, reference: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(maker).parameters
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"{reference} is not a function that makes a scenario") from error


def _check_complete(
    reference: str, parameters: Mapping[str, inspect.Parameter], given: Mapping[str, Any]
) -> None:
    missing = [
        name
        for name, p in parameters.items()
        if p.default is p.empty
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and name not in given
    ]
    if missing:
        raise ScenarioError(
            f"{reference} needs a value for {', '.join(missing)}; is it what makes the scenario? "
            "write FILE.py:FUNCTION for another one, or --set NAME=VALUE"
        )


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
    if any(map(math.isnan, values)):
        raise ScenarioError(f"{key} = {text} is not a number; write --set {key}=1.5")
    return values[0] if len(values) == 1 else values

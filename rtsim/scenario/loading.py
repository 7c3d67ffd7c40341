"""Load scenarios by name or from Python files."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import invalidate_caches
from importlib.machinery import SourceFileLoader
from importlib.metadata import entry_points
from pathlib import Path
from traceback import FrameSummary
from types import CodeType, ModuleType
from typing import Any

from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.file_hash import Signature, file_hash, signature
from rtsim.core.raised import from_outside, from_the_machine, own_frames
from rtsim.scenario.scenario import Scenario

_found: set[str] = set()
"""Names of modules that Python finds only if the folder of the scenario file is on its path."""

_imported: dict[Path, dict[str, tuple[Path, Signature | None]]] = {}
"""For each loaded file: the name, file and signature of each module that it imported."""


def imported_by(path: Path) -> dict[Path, Signature | None]:
    """Return the files that were imported together with a scenario file."""
    found = _imported.get(path.resolve(), {})
    return dict(one for name, one in found.items() if name in sys.modules)


def forget_beside() -> None:
    """Forget the modules that the last scenario file imported from its folder.

    The next scenario file may need a different module of the same name.
    """
    while _found:
        sys.modules.pop(_found.pop(), None)
    invalidate_caches()


@contextmanager
def imports_beside(path: Path | None) -> Iterator[None]:
    """Context manager in which imports search the folder of ``path`` first."""
    if path is None:
        yield
        return
    folder = str(path.resolve().parent)
    before = set(sys.modules)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(folder)
        new = sys.modules.keys() - before
        imported = _imported.setdefault(path.resolve(), {})
        for name in new:
            if file := getattr(sys.modules.get(name), "__file__", None):
                imported[name] = Path(file), signature(file)
        _found.update(name for name in new if _is_in_scenario_folder(name))


def _is_in_scenario_folder(name: str) -> bool:
    package = name.partition(".")[0]
    file = getattr(sys.modules.get(package), "__file__", None)
    return file is not None and file != _origin(package)


def _origin(name: str) -> str | None:
    for finder in sys.meta_path:
        spec = finder.find_spec(name, None)
        if spec is not None:
            return spec.origin
    return None


BUILT_IN = {
    "aerosonde": "rtsim.models.aerosonde_by_hand:scenario",
    "ball": "rtsim.models.ball:scenario",
    "cars": "rtsim.models.falsification.cars:scenario",
    "fox-and-rabbit": "rtsim.models.chase:scenario",
    "f16": "rtsim.models.f16.scenario:scenario",
    "f16-by-hand": "rtsim.models.f16.piloted_scenario:scenario",
    "f16-gcas": "rtsim.models.f16.ground_avoidance:scenario",
    "f16-processor": "rtsim.models.f16.one_processor:scenario",
    "job-shop": "rtsim.models.job_shop:scenario",
    "life": "rtsim.models.life:scenario",
    "machine-shop": "rtsim.models.machine_shop:scenario",
    "nesc": "rtsim.models.nesc:scenario",
    "orbit": "rtsim.models.orbit:scenario",
    "quadcopter": "rtsim.models.quadcopter_by_hand:scenario",
    "queue": "rtsim.models.queues:scenario",
    "tracking": "rtsim.models.tracking:scenario",
    "transmission": "rtsim.models.falsification.transmission:scenario",
    "unstable": "rtsim.models.unstable:scenario",
    "valves": "rtsim.models.valves:scenario",
}
"""Functions that create rtsim's own scenarios, as ``module:function``, by the scenario's name.
Other packages add scenarios with the entry point ``rtsim.scenarios``.
"""

FILES = {".fmu": "rtsim.fmi.scenario:maker"}
"""Functions of a path that return the function of a scenario, by the suffix of other files."""

Maker = Callable[..., Scenario]


def known_scenarios() -> dict[str, str]:
    """Return ``module:function`` of every named scenario."""
    found = dict(BUILT_IN)
    for entry in entry_points(group="rtsim.scenarios"):
        found.setdefault(entry.name, entry.value)
    return found


def file_of(reference: str) -> Path | None:
    """Return the Python file or FMU in ``reference``, or ``None``."""
    if Path(reference).suffix in FILES:
        return Path(reference)
    path, _, function = reference.partition(".py")
    named = reference.endswith(".py") or function.startswith(":")
    return Path(path + ".py") if named else None


def find_maker(reference: str) -> Maker:
    """Return the function that creates a scenario.

    ``reference`` is the name of a scenario, ``path/to/file.py[:function]`` or ``file.fmu``.
    """
    path = file_of(reference)
    if path is not None and path.suffix in FILES:
        module, _, name = FILES[path.suffix].partition(":")
        made: Maker = getattr(importlib.import_module(module), name)(path)
        return made
    if path is not None:
        _, _, function = reference.partition(".py")
        return _from_file(path, function.lstrip(":") or "scenario")
    scenarios = known_scenarios()
    if reference not in scenarios:
        raise _unknown(reference, sorted(scenarios))
    module, _, name = scenarios[reference].partition(":")
    with users_code(reference):
        found = importlib.import_module(module)
    return _function(found, name)


def _unknown(reference: str, scenarios: list[str]) -> ScenarioError:
    beside = Path(f"{reference}.py")
    if beside.is_file():
        return ScenarioError(
            f"no scenario is called {reference!r}; to run the file, type rtsim run {beside}"
        )
    if reference.endswith(".mcap"):
        return ScenarioError(f"{reference} is a recording; type rtsim replay {reference}")
    return UnknownName("scenario", reference, scenarios, "rtsim scenarios")


@contextmanager
def users_code(whose: str) -> Iterator[None]:
    """Context manager that converts exceptions of the user's code to ``ScenarioError``."""
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
        if lack := from_the_machine(error):
            raise ScenarioError(f"{whose} cannot be loaded: {lack}") from error
        frames = "".join(f"\n  {line}" for line in _shown(own_frames(error)))
        raise ScenarioError(f"{whose} raised {type(error).__name__}: {error}{frames}") from error


_SHOWN = 3


def _shown(frames: list[FrameSummary]) -> list[str]:
    lines = [f"{f.filename}:{f.lineno} {f.line}" for f in frames]
    left_out = len(lines) - 2 * _SHOWN
    if left_out <= 1:
        return lines
    return [*lines[:_SHOWN], f"... {left_out} more calls ...", *lines[-_SHOWN:]]


class _FromSource(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def module_name(path: Path) -> str:
    return f"rtsim_scenario_{path.stem}"


def _from_file(path: Path, name: str) -> Maker:
    if not path.is_file():
        raise ScenarioError(
            f"file {path} does not exist; give a Python file with a function scenario()"
        )
    called = module_name(path)
    loader = _FromSource(called, str(path))
    spec = importlib.util.spec_from_file_location(called, path, loader=loader)
    if spec is None or spec.loader is None:
        raise ScenarioError(f"{path} cannot be loaded as Python; give a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[called] = module
    forget_beside()
    with users_code(str(path)), imports_beside(path):
        spec.loader.exec_module(module)
    return _function(module, name)


def _function(module: ModuleType, name: str) -> Maker:
    maker = getattr(module, name, None)
    if not callable(maker):
        functions = [n for n, f in vars(module).items() if inspect.isfunction(f)]
        raise UnknownName("function", name, functions, str(module.__file__))
    return maker  # type: ignore[no-any-return]


Settings = Mapping[str, str | float | Sequence[float]]
Prepare = Callable[[Scenario], object]
"""Function that changes a new scenario before its values are set."""


def _unprepared(scenario: Scenario) -> None:
    """Leave the scenario as its function made it."""


class ScenarioMaker:
    """A function that creates a scenario. Each call of ``make`` returns a new scenario."""

    def __init__(self, reference: str) -> None:
        """Load ``reference``: a name, or ``path/to/file.py[:function]``."""
        self.reference = reference
        self._hashed = _hash_of(
            reference
        )  # before the file is executed, because its code can change the file
        self._maker = find_maker(reference)
        self._parameters = _parameters(self._maker, reference)

    @property
    def sha256(self) -> str | None:
        """The hash of the scenario file; ``None`` for a scenario by name."""
        return self._hashed.get("sha256")

    def make(self, settings: Settings | None = None, prepare: Prepare = _unprepared) -> Scenario:
        """Return a new scenario. Arguments and errors are the same as for :func:`load_scenario`."""
        reference, parameters = self.reference, self._parameters
        texts = {key: _as_text(value) for key, value in (settings or {}).items()}
        arguments: dict[str, Any] = {}
        for key, text in texts.items():
            if "." not in key:
                if key not in parameters:
                    raise UnknownName("argument", key, parameters, f"scenario {reference}")
                arguments[key] = _typed(key, text, parameters[key].default)
        _check_complete(reference, parameters, arguments)
        with users_code(reference), imports_beside(file_of(reference)):
            scenario = self._maker(**arguments)
        if not isinstance(scenario, Scenario):
            raise ScenarioError(
                f"{reference} returned a {type(scenario).__name__}, not a Scenario; return a "
                "Scenario, or name the function that does: FILE.py:FUNCTION"
            )
        prepare(scenario)
        for key, text in texts.items():
            if "." in key:
                scenario.set(key, scenario.named_number(key, text) or _numbers(key, text))
        origin = {"reference": from_anywhere(reference), "settings": texts}
        scenario.origin = {**origin, **self._hashed}
        return scenario


def load_scenario(
    reference: str, settings: Settings | None = None, prepare: Prepare = _unprepared
) -> Scenario:
    """Return a scenario by name or from a file ``path/to/file.py[:function]``.

    ``settings`` maps names of function arguments (``case``) and of initial values (``f16.cg``) to
    texts, numbers or sequences of numbers. An argument is converted to the type of its default. The
    text of an initial value is one number, or several numbers separated by commas. ``prepare`` is
    called with the new scenario before the values are set, for example to add faults that the
    settings change. Raises :class:`ScenarioError` for an unknown name or a wrong value.

    Example:
        bounces = load_scenario("ball", {"ball.height": 2.0})
    """
    return ScenarioMaker(reference).make(settings, prepare)


def _hash_of(reference: str) -> dict[str, str]:
    path = file_of(reference)
    try:
        return {} if path is None else {"sha256": file_hash(path)}
    except OSError:
        return {}  # loading the file later raises the error


def from_anywhere(reference: str) -> str:
    """Return ``reference`` with an absolute path, for a replay in another folder."""
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
            f"{reference} needs a value for {', '.join(missing)}; give --set NAME=VALUE, or name "
            "the function that makes the scenario: FILE.py:FUNCTION"
        )


def _as_text(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)


def _typed(key: str, text: str, default: object) -> object:
    if isinstance(default, bool):
        if text.lower() in ("true", "false", "1", "0", "yes", "no"):
            return text.lower() in ("true", "1", "yes")
        raise ScenarioError(f"{key} = {text!r}; expected true or false")
    if isinstance(default, str):
        return text
    values = _numbers(key, text)
    if isinstance(values, list):
        raise ScenarioError(f"{key} = {text!r}; expected one number")
    return int(values) if isinstance(default, int) and float(values).is_integer() else values


def _numbers(key: str, text: str) -> float | list[float]:
    try:
        values = [float(v) for v in text.split(",")]
    except ValueError:
        raise ScenarioError(
            f"{key} = {text!r} is not a number; write, for example, --set {key}=1.5"
        ) from None
    if any(map(math.isnan, values)):
        raise ScenarioError(f"{key} = {text} is not a number; write, for example, --set {key}=1.5")
    return values[0] if len(values) == 1 else values

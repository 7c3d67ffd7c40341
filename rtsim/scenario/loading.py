"""Find a scenario by its name or its Python file, and make the scenario."""

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

# Import the modules that lie beside a user's Python file.

_found: set[str] = set()
"""Names of the modules that Python finds only in the folder of the file."""

_imported: dict[Path, dict[str, tuple[Path, Signature | None]]] = {}
"""For each file that was loaded: the modules whose import it caused, as :func:`imported_by`."""


def imported_by(path: Path) -> dict[Path, Signature | None]:
    """Return the files of modules that the file ``path`` imported and that Python still holds.

    Python reads such a file once, so a later load of ``path`` does not open it again.  Each has
    its signature at the time of the import.
    """
    found = _imported.get(path.resolve(), {})
    return dict(one for name, one in found.items() if name in sys.modules)


def forget_beside() -> None:
    """Forget the modules beside the file that was loaded last.

    Python keeps a module by its name.  Another file can have a module of the same name beside it,
    and the text of a module can have changed since.
    """
    while _found:
        sys.modules.pop(_found.pop(), None)
    invalidate_caches()


@contextmanager
def imports_beside(path: Path | None) -> Iterator[None]:
    """Find modules in the folder of the file ``path`` first, as Python does for a script.

    The folder is on the path only meanwhile.
    """
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
        _found.update(name for name in new if _is_beside(name))


def _is_beside(name: str) -> bool:
    """Return whether a module is no longer found, or another one is, without the folder."""
    package = name.partition(".")[0]
    file = getattr(sys.modules.get(package), "__file__", None)
    return file is not None and file != _origin(package)


def _origin(name: str) -> str | None:
    """Return the file of a module as Python would find it now."""
    for finder in sys.meta_path:
        spec = finder.find_spec(name, None)
        if spec is not None:
            return spec.origin
    return None


BUILT_IN = {
    "ball": "rtsim.models.ball:scenario",
    "fox-and-rabbit": "rtsim.models.chase:scenario",
    "f16": "rtsim.models.f16.scenario:scenario",
    "f16-by-hand": "rtsim.models.f16.piloted_scenario:scenario",
    "job-shop": "rtsim.models.job_shop:scenario",
    "life": "rtsim.models.life:scenario",
    "machine-shop": "rtsim.models.machine_shop:scenario",
    "nesc": "rtsim.models.nesc:scenario",
    "orbit": "rtsim.models.orbit:scenario",
    "queue": "rtsim.models.queues:scenario",
    "tracking": "rtsim.models.tracking:scenario",
    "unstable": "rtsim.models.unstable:scenario",
    "valves": "rtsim.models.valves:scenario",
}
"""``module:function`` of rtsim's own scenarios, by the scenario's name; other packages add
scenarios by the entry point ``rtsim.scenarios``."""

Maker = Callable[..., Scenario]


def known_scenarios() -> dict[str, str]:
    """Return ``module:function`` of every scenario that has a name."""
    found = dict(BUILT_IN)
    for entry in entry_points(group="rtsim.scenarios"):
        found.setdefault(entry.name, entry.value)
    return found


def file_of(reference: str) -> Path | None:
    """Return the Python file in ``reference``; ``None`` if it is the name of a scenario."""
    path, _, function = reference.partition(".py")
    named = reference.endswith(".py") or function.startswith(":")
    return Path(path + ".py") if named else None


def find_maker(reference: str) -> Maker:
    """Return the function that makes scenario ``name`` or ``path/to/file.py[:function]``."""
    path = file_of(reference)
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
    """Return an error that suggests a file of this name, a recording or a similar name."""
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
    """Turn an exception of the user's code into a ScenarioError with the lines that raised it."""
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
    """Return the first and the last frames, because endless recursion has very many frames."""
    lines = [f"{f.filename}:{f.lineno} {f.line}" for f in frames]
    left_out = len(lines) - 2 * _SHOWN
    if left_out <= 1:
        return lines
    return [*lines[:_SHOWN], f"... {left_out} more calls ...", *lines[-_SHOWN:]]


class _FromSource(SourceFileLoader):
    """Loader that compiles a Python file at each load.

    Python recognises outdated bytecode by the file's size and its time in whole s.  An edit can
    leave both as they were, and the old code would run.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def module_name(path: Path) -> str:
    """Return the name of the module that the scenario file ``path`` is loaded as."""
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


class ScenarioMaker:
    """The function that makes a scenario, loaded once; each call makes another scenario."""

    def __init__(self, reference: str) -> None:
        """Load ``reference``: a name, or ``path/to/file.py[:function]``."""
        self.reference = reference
        self._hashed = _hash_of(reference)  # before the file runs, because its code can change it
        self._maker = find_maker(reference)
        self._parameters = _parameters(self._maker, reference)

    @property
    def sha256(self) -> str | None:
        """The hash of the scenario's file before it was loaded; ``None`` for a scenario by name."""
        return self._hashed.get("sha256")

    def make(self, settings: Settings | None = None) -> Scenario:
        """Return a scenario; arguments and errors as in :func:`load_scenario`."""
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
        for key, text in texts.items():
            if "." in key:
                scenario.set(key, _numbers(key, text))
        origin = {"reference": from_anywhere(reference), "settings": texts}
        scenario.origin = {**origin, **self._hashed}
        return scenario


def load_scenario(reference: str, settings: Settings | None = None) -> Scenario:
    """Return the scenario that ``reference`` names: a name, or ``path/to/file.py[:function]``.

    ``settings`` gives arguments of its function (``case``) and initial values (``f16.cg``): texts,
    numbers, or sequences of numbers.  An argument is converted to the type of its default.  A text
    of a value is a number, or several numbers separated by commas.  Raises
    :class:`ScenarioError`.

    Example:
        bounces = load_scenario("ball", {"ball.height": 2.0})
    """
    return ScenarioMaker(reference).make(settings)


def _hash_of(reference: str) -> dict[str, str]:
    """Return the hash of the scenario's file; a replay checks it before it runs the file."""
    path = file_of(reference)
    try:
        return {} if path is None else {"sha256": file_hash(path)}
    except OSError:
        return {}  # loading the file later raises the error


def from_anywhere(reference: str) -> str:
    """Return ``reference`` with a full path, so that a replay in another folder finds the file."""
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
    """Return a value as the command line gives it; a number keeps all its digits."""
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

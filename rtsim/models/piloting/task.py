"""Tasks for a pilot, and measures of the pilot's performance.

The data of a task define the plant ``task`` of a run. The plant ``task`` reads signals of the
aircraft, and computes targets, errors and scores. A kind of task is a class with the members of
``Task``. Other packages add kinds of tasks through entry points of the group ``rtsim.tasks``.

The component ``stick`` is an external input for a person, or a scripted pilot with the same
signals.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from rtsim.core import toml
from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.extension_point import ExtensionPoint
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Period
from rtsim.equations.model import Model
from rtsim.models.piloting.approach import Approach
from rtsim.models.piloting.findings import Findings
from rtsim.models.piloting.formation import Formation
from rtsim.models.piloting.gates import Gates
from rtsim.models.piloting.pilot_model import PilotModel, link, pilot
from rtsim.models.piloting.tracking import Tracking
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import PlantComponent

if TYPE_CHECKING:
    from rtsim.record.reading import Recording
    from rtsim.record.reports.page import Section


NAME = "task"
"""Name of the plant that a task becomes."""
SHIPPED = Path(__file__).parent / "shipped"
"""Folder of rtsim's own tasks, one TOML file each."""
STEP_S = 0.01


class Task(Protocol):
    """Members of a kind of task.

    The attribute ``kind`` is the name of the kind of task. The method ``model`` must return a model
    with this name, because a recording identifies tasks by the name of the model. ``needs``
    contains the aircraft signals that the model reads as inputs. ``duration`` is the length of the
    task, s. ``scene`` is the scene of the window, or empty for the scene of the scenario.
    :meth:`shown` returns options of the scene.
    """

    kind: ClassVar[str]

    @property
    def title(self) -> str: ...

    @property
    def duration(self) -> float: ...

    @property
    def needs(self) -> tuple[str, ...]: ...

    @property
    def scene(self) -> str: ...

    @classmethod
    def from_data(cls, data: Mapping[str, Any], where: str) -> Self:
        """Return the task from plain data; error messages begin with ``where``."""
        ...

    def shown(self) -> Mapping[str, Any]: ...

    def model(self) -> Model: ...

    @staticmethod
    def findings(recording: Recording, name: str) -> Findings:
        """Return the measures of the task in the plant ``name`` of ``recording``."""
        ...


_PARTS = ("kind", "from_data", "model", "findings", "shown", "needs", "duration", "scene", "title")


def _checked(name: str, made: object) -> type[Task]:
    missing = [part for part in _PARTS if not hasattr(made, part)]
    if not isinstance(made, type) or missing:
        problem = f"it has no {', '.join(missing)}" if missing else f"it is {made!r}"
        raise ScenarioError(
            f"the kind of task {name!r} must be a class like rtsim.models.piloting.Tracking; "
            f"{problem}"
        )
    return made


_OWN: dict[str, type[Task]] = {made.kind: made for made in (Tracking, Gates, Approach, Formation)}
KINDS: ExtensionPoint[type[Task]] = ExtensionPoint(
    "rtsim.tasks",
    "kind of task",
    _OWN,
    _checked,
)
"""Kinds of tasks by name."""


def known_tasks() -> dict[str, str]:
    """Return the titles of all named tasks, by name."""
    names = [path.stem for path in sorted(SHIPPED.glob("*.toml"))]
    names += [name for name in KINDS if name not in names and name not in _OWN]
    return {name: task_named(name).title for name in names}


def task_named(reference: str, realisation: int = 0) -> Task:
    """Return the task ``reference``: the name of a task or the path of a TOML file.

    A path can be followed by ``#`` and the first digits of the file's SHA-256, which rtsim then
    checks. A ``realisation`` > 0 selects the phases of the target of a tracking task, and raises
    :class:`ScenarioError` for another task.
    """
    task = _found(reference)
    if realisation <= 0:
        return task
    if not isinstance(task, Tracking):
        raise ScenarioError(
            f"realisation = {realisation}, but task {reference} has no phases; leave it out"
        )
    return replace(task, realisation=realisation)


def _found(reference: str) -> Task:
    text, _, digest = reference.partition("#")
    path = Path(text)
    if path.suffix != ".toml":
        shipped = SHIPPED / f"{text}.toml"
        if text.replace("-", "_").isidentifier() and shipped.is_file():
            return read_task(shipped)
        if text in KINDS:
            return KINDS[text].from_data({}, f"task {text}")
        names = [p.stem for p in sorted(SHIPPED.glob("*.toml"))]
        raise UnknownName(
            "task", text, [*names, *(k for k in KINDS if k not in names)], "rtsim tasks"
        )
    if digest and path.is_file() and not _hash(path).startswith(digest):
        raise ScenarioError(
            f"task {path} has changed since the run: its SHA-256 does not begin with {digest}; "
            "restore the file"
        )
    return read_task(path)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pinned(reference: str) -> str:
    """Return ``reference`` with the absolute path and the hash of a TOML file.

    With this text, a replay in any folder finds the same file, and fails if the file has changed.
    Other references are returned unchanged.
    """
    path = Path(reference)
    if path.suffix != ".toml" or "#" in reference or not path.is_file():
        return reference
    return f"{path.resolve()}#{_hash(path)[:16]}"


def read_task(path: Path) -> Task:
    """Read a task from a TOML file; raise ``ScenarioError`` if the file is invalid."""
    file = toml.open_toml(path, "a file of a task")
    data = file.data
    kind = data.pop("kind", None)
    if not isinstance(kind, str):
        known = ", ".join(KINDS)
        text = f'no kind; write, for example, kind = "tracking" (known kinds: {known})'
        raise file.place.error("kind", text)
    return KINDS.get_or_raise(kind, f"task {path}").from_data(data, f"task {path.name}")


def add_task(
    scenario: Scenario,
    task: Task,
    signals: Mapping[str, str],
    *,
    values: Mapping[str, object] | None = None,
    step: float = STEP_S,
) -> None:
    """Add ``task`` to ``scenario`` as the plant ``task``.

    Args:
        signals: the aircraft's signal for each signal that the task needs, such as
            ``{"pitch": "f16.pitch"}``.
        values: parameters of the task's model, such as ``pitch_centre``.
        step: step of the plant, s.

    Raises:
        ScenarioError: ``signals`` lacks a signal that the task needs.
    """
    signals = {**signals, **getattr(task, "signals", {})}
    missing = [need for need in task.needs if need not in signals]
    if missing:
        raise ScenarioError(
            f"task {task.kind} needs the signals {', '.join(task.needs)}, but scenario "
            f"{scenario.name} gives no {', '.join(missing)}; give signals={{{missing[0]!r}: "
            "'plant.signal'}"
        )
    model = task.model()
    known = model.parameters.names
    scenario.plant(
        NAME,
        model,
        step=Period.of(step),
        update_period=None if model.update is None else Period.of(step),
        inputs={name: signals[name] for name in model.inputs.names},
        parameters={k: v for k, v in (values or {}).items() if k in known},
    )


def kind_of(recording: Recording) -> str:
    """Return the kind of task in ``recording``, or "" for a run without a task."""
    parts = recording.header.get("scenario", {}).get("parts", {})
    part = parts.get(NAME, {}) if isinstance(parts, Mapping) else {}
    plant = isinstance(part, Mapping) and part.get("kind") == PlantComponent.kind
    return str(part.get("model", "")) if plant else ""


def measure(recording: Recording) -> Findings:
    """Return the measures of the task in ``recording``.

    Raises :class:`ScenarioError` if the recording has no task, or a task of an unknown kind.
    """
    kind = kind_of(recording)
    if not kind:
        raise ScenarioError(
            f"{recording.source} has no task; give a recording of rtsim fly SCENARIO --task NAME"
        )
    return KINDS.get_or_raise(kind, recording.source).findings(recording, NAME)


def task_section(recording: Recording) -> Section | None:
    """Return the section of a report about the task in ``recording``, or ``None`` without a task.

    If the task cannot be measured, the section contains the reason.
    """
    from rtsim.record.markup import table, text
    from rtsim.record.reports.charts import grid

    if kind_of(recording) not in KINDS:  # another plant can also have the name task
        return None
    try:
        found = measure(recording)
    except RtsimError as error:
        return "task", "Task", f"<p>{text(f'The task was not measured: {error}')}</p>"
    whole = "" if found.complete else " (incomplete)"
    rows = [(row.said, row.shown, row.unit) for row in found.rows]
    body = table((f"task {found.kind}{whole}", "value", "unit"), rows, numeric=1)
    notes = "".join(f"<p>{text(note)}</p>" for note in found.notes)
    return "task", "Task", body + notes + grid(found.charts)


PERSON, SCRIPT = "person", "script"
WHO = (PERSON, SCRIPT)


class Untouched:
    """A stick that does not move, for a run without a connected viewer."""

    def poll(self) -> Vector | None:
        return None


@dataclass(frozen=True)
class Flying:
    """Settings of the stick: signals, pilot and latency.

    ``period`` is the period of the link and of the scripted pilot, s. ``latency`` is the latency of
    the link, s. ``by`` is ``person`` or ``script``. ``models`` contains the parameters of the
    scripted pilot, by axis. ``remnant`` is the density of the pilot's noise, in the unit of the
    error per sqrt(Hz).
    """

    stick: Signals
    period: float
    latency: float = 0.0
    by: str = PERSON
    models: Mapping[str, PilotModel] = field(default_factory=dict)
    remnant: float = 0.0


def add_flying(
    scenario: Scenario,
    flying: Flying,
    task: Task | None,
    signals: Mapping[str, str],
    values: Mapping[str, object] | None = None,
) -> None:
    """Add ``stick``, ``link`` and, if given, ``task`` to ``scenario``.

    The aircraft of the scenario reads the stick signals from ``link``. ``signals`` and ``values``
    are passed to :func:`add_task`. Raises :class:`ScenarioError` for an invalid pilot or a missing
    signal.
    """
    if flying.by not in WHO:
        raise UnknownName("pilot", flying.by, WHO, "the argument by")
    names = flying.stick.names
    period = Period.of(flying.period)
    scenario.controller(
        "link",
        link(flying.stick, flying.period, flying.latency),
        period=period,
        inputs={name: f"stick.{name}" for name in names},
    )
    if task is not None:
        add_task(scenario, task, signals, values=values)
    if flying.by == PERSON:
        scenario.external_input("stick", flying.stick, Untouched())
        return
    _add_script(scenario, flying, task, signals, period)


def _add_script(
    scenario: Scenario,
    flying: Flying,
    task: Task | None,
    signals: Mapping[str, str],
    period: Period,
) -> None:
    axes = () if task is None else getattr(task, "axes", ())
    models = {axis: flying.models[axis] for axis in axes if axis in flying.models}
    if task is None or not models:
        raise ScenarioError(
            "the scripted pilot flies tracking tasks only, on the axes "
            f"{', '.join(flying.models) or 'none'}; give task=pitch-tracking, or by=person"
        )
    inputs = {}
    for name in models:
        inputs[f"{name}_target"] = f"{NAME}.{name}_target"
        inputs[f"{name}_answer"] = signals[name]
        if flying.remnant > 0.0:
            inputs[f"{name}_remnant"] = f"remnant.{name}"
    if flying.remnant > 0.0:
        noise = Signals(*models)
        scenario.noise("remnant", noise, deviation=flying.remnant, period=period)
    scenario.controller(
        "stick", pilot(flying.stick, models, flying.period), period=period, inputs=inputs
    )
    scenario.order("stick", "link")

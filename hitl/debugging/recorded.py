"""The recorded steps of one controller, and the file from which ``debug.c`` repeats them.

The file contains 64-bit words in the byte order of this machine: a head of six integers, the
parameters (k,), the times in ns (n,), the inputs (n, m), the answers (n, o) and the statuses (n,).
The check of the C code fills in the answers and the statuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.components.controller_task import RESTARTED
from rtsim.components.request_log import steps_of
from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Duration, Tag, to_ns
from rtsim.engine.trace import request_topic
from rtsim.record.component_values import described
from rtsim.record.jobs import JOBS
from rtsim.record.reading import Recording
from rtsim.record.table import signal_values
from rtsim.runs.replay import continued

Table = NDArray[np.float64]
MAGIC = 0x4755424544545352
"""First word of the file of steps, as in ``debug.c``."""
_HEAD = 6
_DONE = 5
"""Index of the number of checked steps in the head."""
_MOST_BYTES = 256 << 20
"""Limit of the signals of other components that the debugger can use, bytes."""


@dataclass(frozen=True, eq=False)
class RecordedSteps:
    """All steps of a controller from its start: n requests with m inputs and o outputs."""

    source: str
    """File name of the recording."""
    name: str
    """Name of the controller in the scenario."""
    about: Mapping[str, Any]
    """Description of the controller in the header of the recording."""
    inputs: Signals
    outputs: Signals
    tags: NDArray[np.int64]
    """Time (ns) and microstep of each step, shape (n, 2)."""
    given: Table
    """Inputs, shape (n, m)."""
    recorded: Table
    """Recorded answers, shape (n, o); NaN for a step without a recorded answer."""

    def __len__(self) -> int:
        return len(self.tags)

    @property
    def answered(self) -> NDArray[np.bool_]:
        """Whether the recording contains the answer of a step, shape (n,)."""
        return np.array([not np.isnan(row).all() for row in self.recorded], np.bool_)

    def tag(self, step: int) -> Tag:
        return Tag(int(self.tags[step, 0]), int(self.tags[step, 1]))

    def step_at(self, time: Duration) -> int:
        """Return the latest step at or before ``time`` s.

        Raises ``ScenarioError`` for a time before the first step, or after the end of the run.
        """
        ns, first, last = to_ns(time, "--at"), self.tag(0), self.tag(len(self) - 1)
        found = int(np.searchsorted(self.tags[:, 0], ns, side="right")) - 1
        period = int(np.diff(self.tags[:, 0]).max(initial=0))
        if found < 0 or ns > last.ns + period:
            raise ScenarioError(
                f"{time} s is not within the steps of {self.name}, which are from "
                f"{first.ns / NS_PER_S:g} to {last.ns / NS_PER_S:g} s; give a time of these"
            )
        return found


def controllers_of(recording: Recording) -> list[str]:
    """Return the names of the controllers of a recorded run."""
    parts = described(recording.header)
    return [name for name, part in parts.items() if part.get("kind") == "controller"]


def recorded_steps(recording: Recording, name: str | None) -> RecordedSteps:
    """Return the steps of the controller ``name``; a single controller needs no name.

    Raises:
        ScenarioError: The run has no controller, or several and no ``name``.
        UnknownName: The run has no controller of this name.
        RecordingError: The recording does not contain all steps since the start.
    """
    known = controllers_of(recording)
    if not known:
        raise ScenarioError(f"{recording.source} has no controller, so there are no steps to debug")
    if name is None and len(known) > 1:
        raise ScenarioError(
            f"{recording.source} has the controllers {', '.join(known)}; name one: "
            f"--controller {known[0]}"
        )
    name = known[0] if name is None else name
    if name not in known:
        raise UnknownName("controller", name, known, recording.source)
    if any(e.kind == RESTARTED and e.source == name for e in recording.events):
        raise RecordingError(
            f"{name} was started again during the run of {recording.source}, so its memory cannot "
            "be restored; debug a run without failure='restart'"
        )
    asked, said = (recording.track(f"messages/{n}") for n in (request_topic(name), name))
    before_tags, before = _before(recording, name, asked.signals.size)
    tags = np.column_stack([asked.integer("initiated"), asked.integer("initiated_step")])
    tags = np.concatenate([before_tags, tags]).astype(np.int64)
    given = np.concatenate([before, asked.rows.floats])
    if not len(tags):
        raise RecordingError(f"{recording.source} contains no step of {name}; record a longer run")
    recorded = np.full((len(tags), said.signals.size), np.nan)
    rows = {(int(ns), int(step)): k for k, (ns, step) in enumerate(tags)}
    initiated = zip(said.integer("initiated"), said.integer("initiated_step"), strict=True)
    for tag, answer in zip(initiated, said.rows.floats, strict=True):
        if (row := rows.get((int(tag[0]), int(tag[1])))) is not None:
            recorded[row] = answer
    steps = RecordedSteps(
        recording.source, name, described(recording.header)[name], asked.signals, said.signals,
        tags, given, recorded,
    )  # fmt: skip
    return _without_aborted(steps, recording)


def _before(recording: Recording, name: str, width: int) -> tuple[NDArray[np.int64], Table]:
    """Return the steps before the checkpoint from which the run continued."""
    start = continued(recording)
    if start is None:
        return np.empty((0, 2), np.int64), np.empty((0, width))
    saved = start.state["tasks"].get(name, {}).get("controller")
    if not isinstance(saved, Mapping) or "tags" not in saved:
        raise RecordingError(
            f"{recording.source} continues from a checkpoint without the requests of {name}; "
            "debug the recording of the run from its start"
        )
    steps = steps_of(saved, width, name)
    tags = np.array([tag for tag, _ in steps], np.int64).reshape(-1, 2)
    return tags, np.array([row for _, row in steps]).reshape(-1, width)


def _without_aborted(steps: RecordedSteps, recording: Recording) -> RecordedSteps:
    """Leave out the steps that a simulated processor aborted: they were never computed."""
    if f"{JOBS}{steps.name}" not in recording.tracks:
        return steps
    ran = steps.answered
    ran[-1] |= any(event.kind == "Error" for event in recording.events)
    rows = (steps.tags[ran], steps.given[ran], steps.recorded[ran])
    return RecordedSteps(
        steps.source, steps.name, steps.about, steps.inputs, steps.outputs, *rows
    )  # fmt: skip


def parameters_of(steps: RecordedSteps) -> dict[str, object]:
    """Return the recorded parameters of the controller."""
    return {str(name): value for name, value in steps.about.get("parameters", {}).items()}


class StepsFile:
    """The file of steps, which ``debug.c`` reads and writes."""

    def __init__(self, path: Path, steps: RecordedSteps) -> None:
        self.path = path
        self._steps = steps

    def write(self, parameters: Vector) -> None:
        """Write the steps with the parameters (k,) that the C code receives."""
        steps = self._steps
        n, m, o = len(steps), steps.inputs.size, steps.outputs.size
        head = np.array([MAGIC, n, m, o, len(parameters), 0], np.int64)
        parts: Sequence[NDArray[Any]] = (
            head, parameters, steps.tags[:, 0], steps.given, np.full((n, o), np.nan),
            np.zeros(n, np.int64),
        )  # fmt: skip
        with self.path.open("wb") as file:
            for part in parts:
                file.write(np.ascontiguousarray(part).tobytes())

    @property
    def done(self) -> int:
        """Number of steps that the check has finished."""
        return int(np.fromfile(self.path, np.int64, count=_HEAD)[_DONE])

    def computed(self) -> tuple[Table, NDArray[np.int64]]:
        """Return the computed answers (n, o) and the statuses (n,)."""
        n, o = len(self._steps), self._steps.outputs.size
        words = np.fromfile(self.path, np.int64)
        end = len(words) - n
        return words[end - n * o : end].view(np.float64).reshape(n, o), words[end:]


def signals_at_steps(recording: Recording, steps: RecordedSteps) -> dict[str, Vector]:
    """Return the values (n,) of all scalar signals of the run at the steps of the controller.

    The result contains columns of arrays, but no signal of the controller itself. For a run whose
    signals exceed 256 MB, the result is empty.
    """
    names = [n for n in recording.names if n.partition(".")[0] != steps.name]
    if 8 * len(names) * len(steps) > _MOST_BYTES:
        return {}
    out: dict[str, Vector] = {}
    ns = np.ascontiguousarray(steps.tags[:, 0])
    for name in names:
        values = signal_values(recording, name, ns)
        if values.ndim == 1:
            out[name] = values
        else:
            out.update((f"{name}[{k}]", values[:, k]) for k in range(values.shape[1]))
    return out


def same_bits(a: Table, b: Table) -> NDArray[np.bool_]:
    """Return whether the rows of two tables (n, o) are equal bit for bit, shape (n,)."""
    return np.array([x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True)], np.bool_)

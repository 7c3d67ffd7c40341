"""Execution times that a recorded run measured, for the jobs of a task.

The scenario keeps the times in its ``origin``, and therefore in the header of each recording.  A
replay takes them from this header, so that the measured recording is not needed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from rtsim.components.allowed_latency import FROM, measured_in
from rtsim.components.latency import InTurn
from rtsim.core.errors import RecordingError

Executions = Mapping[str, Sequence[int]]
"""Execution times, ns, by the text ``from:RUN:CONTROLLER`` that declares them."""
_known: ContextVar[Executions] = ContextVar("executions", default={})  # noqa: B039 - not changed


def is_measured(execution: object) -> bool:
    """Return whether ``execution`` is a text ``from:RUN[:CONTROLLER]``."""
    return isinstance(execution, str) and execution.startswith(FROM)


def measured_execution(text: str, task: str) -> InTurn:
    """Return the execution times that ``text`` names, for the jobs of ``task`` in turn.

    Without a controller in ``text``, the controller has the name of the task.

    Raises:
        ScenarioError: ``text`` names no recording.
        RecordingError: The recording cannot be read, or has no execution times of the controller.
    """
    path, controller = measured_in(text, f"execution={text!r} of {task}")
    source = f"{FROM}{path}:{controller or task}"
    known = _known.get().get(source)
    if known is not None:
        return InTurn(tuple(known), source)

    from rtsim.record.measured import measured_executions
    from rtsim.record.reading import Recording

    return InTurn(measured_executions(Recording.open(path), controller or task), source)


@contextmanager
def known_executions(origin: Mapping[str, Any], file: str) -> Iterator[None]:
    """Let scenarios that are loaded in this context take measured times from ``origin``.

    ``origin`` is part of the header of the recording or checkpoint ``file``. Malformed times raise
    :class:`RecordingError`.
    """
    found = origin.get("executions", {})
    if not isinstance(found, Mapping) or not all(map(_is_times, found.values())):
        raise RecordingError(
            f"{file} contains malformed execution times; the file was written by another version "
            "of rtsim, or is damaged"
        )
    token = _known.set(found)
    try:
        yield
    finally:
        _known.reset(token)


def _is_times(values: object) -> bool:
    return isinstance(values, list) and bool(values) and all(type(v) is int for v in values)

"""The section of a task in the report of a recording."""

from __future__ import annotations

from rtsim.core.errors import RtsimError
from rtsim.models.piloting.findings import Findings
from rtsim.models.piloting.task import KINDS, kind_of, measure
from rtsim.record.markup import table, text
from rtsim.record.reading import Recording
from rtsim.record.reports.charts import grid
from rtsim.record.reports.page import Section


def task_section(recording: Recording) -> Section | None:
    """Return the section of the task in ``recording``, or ``None`` if there is no task.

    A task that cannot be measured has a section that says why.
    """
    if kind_of(recording) not in KINDS:  # a plant called task may be anything
        return None
    try:
        found = measure(recording)
    except RtsimError as error:
        return "task", "Task", f"<p>{text(f'The task was not measured: {error}')}</p>"
    body = _table(found) + "".join(f"<p>{text(note)}</p>" for note in found.notes)
    return "task", "Task", body + grid(found.charts)


def _table(found: Findings) -> str:
    whole = "" if found.complete else " (incomplete)"
    rows = [(row.said, row.shown, row.unit) for row in found.rows]
    return table((f"task {found.kind}{whole}", "value", "unit"), rows, numeric=1)

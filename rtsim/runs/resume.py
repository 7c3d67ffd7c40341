"""Continue a recorded run live, from a checkpoint or any other time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.components.controller import ControllerProtocol
from rtsim.core.errors import CheckpointError, RtsimError
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.engine.checkpoint.file import Checkpoint, Ring, beside
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.record.reading import Recording
from rtsim.runs.replay import (
    BUILD_CHANGED,
    changed_since,
    continued,
    scenario_from,
    to_repeat,
)
from rtsim.runs.request import MAX, Pace
from rtsim.runs.simulation import run
from rtsim.scenario.scenario import Scenario

CONTROLLERS = "rtsim.controllers"
"""Entry point group of functions that start a recorded controller again.

A package registers ``type = "module:function"``; the function is called with ``(about,
parameters)``.
"""


def live_scenario(header: Mapping[str, Any], source: str, force: bool = False) -> Scenario:
    """Return the scenario of a recording or checkpoint, with its controllers started again.

    Raises ``CheckpointError`` if the scenario has changed, unless ``force`` is True.
    """
    scenario = scenario_from(header, source, lambda name: started_again(header, name))
    changed = [] if force else changed_since(header, scenario)
    if changed:
        built = any(BUILD_CHANGED in line for line in changed)
        how = (
            "to continue if the C code gives the same answers up to this time"
            if built
            else "to continue anyway"
        )
        raise CheckpointError(
            f"the scenario has changed since {source} was written; add --force {how}:\n"
            + "\n".join(changed)
        )
    return scenario


def started_again(header: Mapping[str, Any], name: str) -> ControllerProtocol:
    """Start a controller again from its description in a recording or checkpoint.

    Raises ``CheckpointError`` if no package can start controllers of this type.
    """
    part: Mapping[str, Any] = header.get("scenario", {}).get("parts", {}).get(name, {})
    kind = str(part.get("type", "something unnamed"))
    known = {entry.name: entry for entry in entry_points(group=CONTROLLERS)}
    if kind not in known:
        raise CheckpointError(
            f"controller {name} was of type {kind}, which cannot be started again here "
            f"(known types: {', '.join(sorted(known)) or 'none'}); continue from Python: "
            "simulate(scenario, start=checkpoint)"
        )
    about = {key: part[key] for key in part.get("about", ()) if key in part}
    made: ControllerProtocol = known[kind].load()(about, dict(part.get("parameters", {})))
    return made


def nearest(recording: Recording, ns: int) -> tuple[Checkpoint | None, list[str]]:
    """Return the last checkpoint of a recorded run at or before ``ns``, and notes.

    The function searches beside the recording; the checkpoint is ``None`` if none is found. Raises
    ``CheckpointError`` for a time before the recording begins.
    """
    found = continued(recording)
    useless: list[str] = []
    for path in beside(Path(recording.source)):
        try:
            checkpoint = Checkpoint.open(path)
        except RtsimError as error:
            useless.append(str(error))
            continue
        if checkpoint.ns > ns or (found is not None and checkpoint.ns <= found.ns):
            continue
        if fits(checkpoint, recording):
            found = checkpoint
        else:
            useless.append(f"{path} is a checkpoint of another run than {recording.source}")
    if found is not None and found.ns > ns:
        raise CheckpointError(
            f"{recording.source} begins at {found.tag}, which is after {Tag(ns)}; give a later time"
        )
    return found, sorted(useless)


def fits(checkpoint: Checkpoint, recording: Recording) -> bool:
    """Return True if ``checkpoint`` belongs to the recorded run."""
    ours = {key: value for key, value in recording.header.items() if key != "tracks"}
    if ours != checkpoint.header:
        return False
    before = recording.continues.get("rows", {})
    for name, plant in checkpoint.state.get("plants", {}).items():
        if name not in recording.tracks:
            return False
        row = checkpoint.rows.get(name, 0) - int(before.get(name, 0)) - 1
        track = recording.track(name)
        if row >= len(track):
            return False  # the recording was cut off before
        if row >= 0 and np.array(plant["values"]).tobytes() != track.values(row).tobytes():
            return False
    return True


def moment(
    recording: Recording, ns: int, *, shown_from: int | None = None, pace: Pace | str = MAX
) -> Checkpoint:
    """Return a checkpoint of a recorded run at the first tag at or after ``ns``.

    The function repeats the run up to this tag. From the time ``shown_from`` (ns) on, the run has
    the pace ``pace``, so that a pilot can watch. Raises :class:`CheckpointError` for a time outside
    the recording, or if the repeated run ends before ``ns``. Raises the error that ends the
    repeated run early.
    """
    if not 0 < ns < recording.end_ns:
        raise CheckpointError(
            f"{recording.source} cannot be continued with live inputs from {Tag(ns)}; give a "
            f"time after 0 s and before its end at {Tag(recording.end_ns)}"
        )
    start, _ = nearest(recording, ns if shown_from is None else shown_from)
    if shown_from is not None:
        start = _on_to(recording, start, shown_from, MAX)
    start = _on_to(recording, start, ns, pace if shown_from is not None else MAX)
    header = {key: value for key, value in recording.header.items() if key != "tracks"}
    return replace(start, header=header)


def _on_to(recording: Recording, start: Checkpoint | None, ns: int, pace: Pace | str) -> Checkpoint:
    if start is not None and start.ns >= ns:
        return start
    ring = Ring(0)
    at = CheckpointSchedule(ring, at=[_seconds(ns)])
    request = replace(to_repeat(recording, start=start, stop_ns=ns), pace=Pace.of(pace))
    run(request.into(None, at)).checked()
    reached = ring.before(recording.end_ns)
    if reached is None:
        raise CheckpointError(f"{recording.source} ended before {Tag(ns)} when it was run again")
    return reached


def _seconds(ns: int) -> str:
    return f"{ns}/{NS_PER_S}"

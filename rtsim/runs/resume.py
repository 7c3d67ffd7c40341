"""Going on from a checkpoint, or from any moment of a recorded flight: what is outside is live."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.components.controller import Controller
from rtsim.core.errors import CheckpointError, RtsimError
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.checkpoint.taking import Ring, Taking, beside
from rtsim.record.reading import Recording
from rtsim.runs.replay import (
    BUILD_CHANGED,
    changed_since,
    continued,
    refly,
    scenario_from,
    scenario_of,
)
from rtsim.runs.simulation import MAX, Pace
from rtsim.scenario.scenario import Scenario

CONTROLLERS = "rtsim.controllers"
"""Packages add controllers that can be started again from what a recording says of them, by this
entry point: ``type = "module:function"`` of ``(about, values)``."""


def live_scenario(header: Mapping[str, Any], source: str, force: bool = False) -> Scenario:
    """The scenario of a recording or a checkpoint, flown by what flew it.

    Raises :class:`CheckpointError` where it is another one now, and not ``force``.
    """
    scenario = scenario_from(header, source, lambda name: started_again(header, name))
    changed = [] if force else changed_since(header, scenario)
    if changed:
        built = any(BUILD_CHANGED in line for line in changed)
        how = "if the C answers every step up to there as it did" if built else "all the same"
        raise CheckpointError(
            f"{source} is of another scenario than this is now; --force goes on {how}:\n"
            + "\n".join(changed)
        )
    return scenario


def started_again(header: Mapping[str, Any], name: str) -> Controller:
    """What flew as controller ``name``, as the header describes it."""
    part: Mapping[str, Any] = header.get("scenario", {}).get("parts", {}).get(name, {})
    kind = str(part.get("type", "something unnamed"))
    known = {entry.name: entry for entry in entry_points(group=CONTROLLERS)}
    if kind not in known:
        raise CheckpointError(
            f"{name} was flown by {kind}, which nothing here can start again "
            f"(known: {', '.join(sorted(known)) or 'none'}); go on from Python: "
            "simulate(scenario, start=checkpoint)"
        )
    about = {key: part[key] for key in part.get("about", ()) if key in part}
    made: Controller = known[kind].load()(about, dict(part.get("parameters", {})))
    return made


def nearest(recording: Recording, ns: int) -> tuple[Checkpoint | None, list[str]]:
    """The latest checkpoint of this very run that is not after ``ns``; ``None``: none is.

    Looked for beside the recording.  The list says, in words, which of those there are of no use.
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
            useless.append(f"{path} is not of the run in {recording.source}")
    if found is not None and found.ns > ns:
        raise CheckpointError(
            f"{recording.source} begins at {found.tag}, after {Tag(ns)}; give a later time"
        )
    return found, sorted(useless)


def fits(checkpoint: Checkpoint, recording: Recording) -> bool:
    """It was taken in this run: the same header, and the states that were recorded then."""
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
            return False  # it was cut off before
        if row >= 0 and np.array(plant["values"]).tobytes() != track.values(row).tobytes():
            return False
    return True


def moment(
    recording: Recording, ns: int, *, shown_from: int | None = None, pace: Pace | str = MAX
) -> Checkpoint:
    """A recorded flight at the first tag at or after ``ns``, made by flying it again up to there.

    From ``shown_from`` on that takes place at ``pace``, so that a pilot is in the picture.  Raises
    what ends that flight before, and :class:`CheckpointError` for a time it does not reach.
    """
    if not 0 < ns < recording.end_ns:
        raise CheckpointError(
            f"{recording.source} can be taken over after 0 s and before its end at "
            f"{Tag(recording.end_ns)}, not at {Tag(ns)}"
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
    at = Taking(ring, at=[_seconds(ns)])
    scenario = scenario_of(recording)
    refly(recording, scenario, start=start, stop_ns=ns, checkpoints=at, pace=pace)
    reached = ring.before(recording.end_ns)
    if reached is None:
        raise CheckpointError(f"{recording.source} ended before {Tag(ns)} when it was flown again")
    return reached


def _seconds(ns: int) -> str:
    """Exactly."""
    return f"{ns}/{NS_PER_S}"

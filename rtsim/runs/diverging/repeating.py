"""Repeat a recorded run, from its start or from a checkpoint, and save states on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.core.errors import RecordingError, RtsimError
from rtsim.core.tag import NS_PER_S, to_ns
from rtsim.engine.checkpoint.file import SUFFIX, Checkpoint
from rtsim.engine.checkpoint.kept import beside
from rtsim.engine.checkpoint.taking import CheckpointSource, Taking, check_savable
from rtsim.engine.system import System
from rtsim.record.reading import Recording, TrackData
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import ended_by_itself, said_no_more
from rtsim.runs.replay import fed_controllers, fed_external_inputs, scenario_of, to_repeat
from rtsim.runs.request import Connections, Progress
from rtsim.runs.resume import fits, live_scenario
from rtsim.runs.simulation import run
from rtsim.scenario.scenario import Scenario

Say = Callable[[str], None]


@dataclass
class KeptCheckpoints:
    """Checkpoints of a run in memory, by their time in ns."""

    by_ns: dict[int, Checkpoint] = field(default_factory=dict)
    most: int | None = None

    def keep(self, checkpoint: Checkpoint) -> None:
        self.by_ns[checkpoint.ns] = checkpoint

    def finish(self) -> None:
        """Do nothing: the checkpoints stay in memory."""


class CheckpointsAt(Taking):
    """Saves checkpoints at the times ``at`` (ns); one of them may be the start of the run."""

    def __init__(self, keeper: KeptCheckpoints, at: Sequence[int]) -> None:
        super().__init__(keeper, at=[f"{ns}/{NS_PER_S}" for ns in at if ns > 0])
        self.wanted = True
        self._first = 0 in at

    def begin(
        self, source: CheckpointSource, header: Mapping[str, Any], ns: int, *rest: Any
    ) -> None:
        super().begin(source, header, ns, *rest)
        if self._first and ns == 0:
            self.ask(ns)


@dataclass(frozen=True)
class RepeatedRun:
    """The result of repeating a run: its recording, and the saved states."""

    recording: Recording
    kept: dict[int, Checkpoint]
    ended_ns: int


class RecordedRun:
    """A recorded run that can be repeated with its recorded external inputs.

    ``live``: run external controllers again, in lockstep, instead of replaying their answers.
    """

    def __init__(
        self,
        recording: Recording,
        scenario: Scenario | None = None,
        live: bool = False,
        say: Say | None = None,
    ) -> None:
        self.recording = recording
        self.live = live
        self._scenario = scenario
        self._say = say
        self._files: dict[int, Path] | None = None

    def scenario(self) -> Scenario:
        """Return the scenario; raises :class:`RecordingError` if the recording names none."""
        if self._scenario is not None:
            return self._scenario
        try:
            if self.live:
                return live_scenario(self.recording.header, self.recording.source, force=True)
            return scenario_of(self.recording)
        except RecordingError as error:
            error.add_note("or rtsim.runs.diverging.diverge(recording, scenarios=(scenario, None))")
            raise

    def check_savable(self) -> None:
        """Raise :class:`CheckpointError` if the state of a component cannot be saved."""
        with self._built() as system:
            check_savable(system)

    def at_start(self) -> Mapping[str, Any]:
        """Return the state before the first tag."""
        with self._built() as system:
            return system.save()

    @contextmanager
    def _built(self) -> Iterator[System]:
        scenario = self.scenario()
        system = scenario.build(
            int(self.recording.header["seed"]), compile=False,
            external_inputs=fed_external_inputs(scenario, self.recording),
            controllers={} if self.live else fed_controllers(scenario, self.recording),
        )  # fmt: skip
        try:
            yield system
        finally:
            system.close()

    def repeat(
        self, start: Checkpoint | None, stop_ns: int, at: Sequence[int] = (), what: str = ""
    ) -> RepeatedRun:
        """Repeat the run from ``start`` to the first tag at or after ``stop_ns``.

        Saves its state at the times ``at`` (ns); ``what`` is the progress text.  If the repeated
        run ends in an error of the simulation, the returned recording ends with this error.  Raises
        any error that prevents the repetition.
        """
        kept = KeptCheckpoints()
        if start is not None and start.ns == 0:
            start = None  # a run cannot continue from a checkpoint at its start
        request = to_repeat(
            self.recording, self.scenario(), start=start, stop_ns=stop_ns, live=self.live
        )
        live = Connections(observe=self._watch(what, stop_ns))
        taking = CheckpointsAt(kept, at) if at else None
        result = run(replace(request.into(MemoryRecorder(), taking), live=live))
        again, error = result.recording(), result.error or result.lost
        if error is not None and not ended_by_itself(self.recording, again, error):
            raise error
        said_no_more(self.recording, again)
        return RepeatedRun(self._joined(start, again), kept.by_ns, result.ended.ns)

    def _watch(self, what: str, stop_ns: int) -> Callable[[Progress], None] | None:
        if self._say is None:
            return None
        say = self._say
        end = min(stop_ns, self.recording.end_ns) / NS_PER_S

        def watch(progress: Progress) -> None:
            say(f"{what}: {progress.ns / NS_PER_S:9.2f} / {end:g} s")

        return watch

    def _joined(self, start: Checkpoint | None, again: Recording) -> Recording:
        """Return the new recording, preceded by the rows that were recorded before ``start``."""
        mine = self.recording
        if start is None:
            return replace(again, source=f"{mine.source} (run again)")
        gone, told = mine.continues.get("rows", {}), int(mine.continues.get("events", 0))

        def joined(name: str, track: TrackData) -> TrackData:
            rows = max(0, start.rows.get(name, 0) - int(gone.get(name, 0)))
            before = mine.tracks.get(name)
            if before is None:
                return track
            return replace(
                track,
                words=np.concatenate([np.asarray(before.words[:rows]), np.asarray(track.words)]),
            )

        tracks = {n: joined(n, t) if t.spec.deterministic else t for n, t in again.tracks.items()}
        events = mine.events[: max(0, start.events - told)] + again.events
        return replace(again, source=f"{mine.source} (run again)", tracks=tracks, events=events)

    # -- checkpoints next to the recording ---------------------------------------------------------

    def checkpoints(self) -> list[int]:
        """Return the times (ns) of the checkpoint files next to the recording, in order."""
        if self._files is None:
            self._files = {}
            path = Path(self.recording.source)
            for file in beside(path):
                seconds = file.name[len(path.stem) + 1 : -len(SUFFIX)]
                try:
                    self._files[to_ns(seconds)] = file
                except RtsimError:
                    continue  # not a name that rtsim gave
        return sorted(self._files)

    def opened(self, ns: int) -> Checkpoint | None:
        """Return the checkpoint at ``ns``; ``None`` if it is missing or of another run."""
        self.checkpoints()
        assert self._files is not None
        try:
            found = Checkpoint.open(self._files[ns])
        except RtsimError:
            return None
        return found if found.ns == ns and fits(found, self.recording) else None

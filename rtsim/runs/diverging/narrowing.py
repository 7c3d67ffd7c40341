"""Find the first tag at which states without a track differ, such as memories and random streams.

Saved states contain these data. A bisection finds the last pair of equal saved states. Both runs
are then repeated from these states, and saved at shorter intervals. The search ends when no tag
remains between the last equal and the first different states.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rtsim.core.errors import RecordingError, RtsimError
from rtsim.core.tag import NS_PER_S, START, Tag, to_ns
from rtsim.engine.checkpoint.file import SUFFIX, Checkpoint, beside
from rtsim.engine.checkpoint.schedule import CheckpointSchedule, CheckpointSource, check_savable
from rtsim.engine.system import System
from rtsim.record.reading import Recording, TrackData
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import ended_by_itself, said_no_more
from rtsim.runs.diverging.first import Place, ValuePair, drawn, first_apart, part_of, parting
from rtsim.runs.replay import fed_controllers, fed_external_inputs, scenario_of, to_repeat
from rtsim.runs.request import Connections, Progress
from rtsim.runs.resume import fits, live_scenario
from rtsim.runs.simulation import run
from rtsim.scenario.scenario import Scenario

# Repeat a recorded run, from its start or from a checkpoint, and save states on the way.

Say = Callable[[str], None]


@dataclass
class KeptCheckpoints:
    """Checkpoints in memory, by their time in ns."""

    by_ns: dict[int, Checkpoint] = field(default_factory=dict)
    most: int | None = None

    def keep(self, checkpoint: Checkpoint) -> None:
        self.by_ns[checkpoint.ns] = checkpoint

    def finish(self) -> None:
        """Do nothing: the checkpoints stay in memory."""


class CheckpointsAt(CheckpointSchedule):
    """Save checkpoints at the times ``at`` (ns)."""

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
    """A recording of a repeated run, and its saved states."""

    recording: Recording
    kept: dict[int, Checkpoint]
    ended_ns: int


class RecordedRun:
    """A recorded run that can be repeated with its recorded inputs.

    With ``live``, external controllers run again instead of replaying their answers.
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
        """Return the scenario; raise ``RecordingError`` if the recording does not name it."""
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
        """Raise ``CheckpointError`` if a component's state cannot be saved."""
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

        States are saved at the times ``at`` (ns).  Progress messages begin with the text ``what``.
        If the repeated run fails, the result ends with the error. Raises any error that prevents
        the repetition.
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
        """Return the times (ns) of the checkpoint files beside the recording."""
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
        self.checkpoints()
        assert self._files is not None
        try:
            found = Checkpoint.open(self._files[ns])
        except RtsimError:
            return None
        return found if found.ns == ns and fits(found, self.recording) else None


_STATES = 64
"""States saved in one repetition: each repetition shortens the interval by this factor."""
_KINDS = {"plants": 0, "tasks": 1, "ports": 2, "faults": 3, "bus": 4, "streams": 5}
"""Priority of the kinds of state: if several kinds differ, the kind with the least number names the
place."""
_PARAMETER = re.compile(r"\.p(\[\d+\])?$")

Both: TypeAlias = tuple[Checkpoint | None, Checkpoint | None]
"""Checkpoints of the two runs at one tag; ``None``: the start."""


@dataclass(frozen=True)
class Beneath:
    """The result of comparing saved states."""

    good: Both
    """The last saved states that agree."""
    place: Place | None = None
    agreed: Tag | None = None
    """The last tag before ``place``; both runs agree at it."""


@dataclass(frozen=True)
class Around:
    """States of both runs before a difference, and the random streams used since then."""

    before: tuple[Mapping[str, Any], Mapping[str, Any]]
    drawn: tuple[list[str], list[str]]


class Narrowing:
    """Search for the first difference between the states of two runs.

    ``kept`` contains saved states of a repeated run by time (ns).
    """

    def __init__(
        self, a: RecordedRun, b: RecordedRun, begins: Both, kept: Mapping[int, Checkpoint] | None
    ) -> None:
        self._runs = a, b
        self._begins = begins
        self._kept = kept
        self._other_from_the_start: list[str] = []
        self.notes: list[str] = []

    def look(self, visible: Place | None, until: int) -> Beneath:
        """Return the first difference in saved states, or ``None``.

        The search ends before the difference ``visible`` in the recordings or, without it, at
        ``until`` ns.
        """
        try:
            begun = self._at_the_start()
        except RtsimError:
            begun = None  # it cannot be built here; repeating the run reports that below
        if begun is not None:
            return Beneath(self._begins, begun)
        end = until + 1 if visible is None else visible.tag.ns
        good, bad = self._among_saved(end)
        if bad is None and visible is None:
            return Beneath(good)
        try:
            found = self._narrowed(good, end if bad is None else bad[0])
        except RtsimError as error:
            found = Beneath(good)
            self.notes.append(f"states that are not recorded could not be compared: {error}")
        if found.place is None and bad is not None:
            since = "the start" if good[0] is None else str(good[0].tag)
            self.notes.append(
                f"the saved states differ somewhere between {since} and {Tag(bad[0])}, but the "
                "repeated runs do not differ there"
            )
            found = Beneath(good, self._memory(Tag(bad[0]), bad[1]))
        if found.place is not None and visible is not None and found.place.tag.ns >= visible.tag.ns:
            return Beneath(good)
        return found

    def _at_the_start(self) -> Place | None:
        if self._kept is not None or self._begins[0] is not None:
            return None
        a, b = (run.at_start() for run in self._runs)
        pairs = parting(a, b)
        self._other_from_the_start = [pair.name for pair in pairs]
        unasked = [
            pair for pair in pairs
            if part_of(pair.name)[0] == "tasks"
            and "absent" not in (pair.a, pair.b)
            and not _PARAMETER.search(pair.name)
        ]  # fmt: skip
        return self._memory(START, unasked) if unasked else None

    def _parting(self, a: Checkpoint, b: Checkpoint) -> list[ValuePair]:
        return parting(a.state, b.state, self._other_from_the_start)

    # -- what was saved ----------------------------------------------------------------------------

    def _among_saved(self, end: int) -> tuple[Both, tuple[int, list[ValuePair]] | None]:
        begin = 0 if self._begins[0] is None else self._begins[0].ns
        times = [ns for ns in self._in_common() if begin < ns < end]
        usable: dict[int, tuple[Checkpoint, Checkpoint]] = {}
        differ: dict[int, list[ValuePair]] = {}

        def agree(ns: int) -> bool:
            one, other = self._saved(ns)
            if one is None or other is None:
                return True  # not usable: the other pairs decide
            usable[ns] = one, other
            differ[ns] = self._parting(one, other)
            return not differ[ns]

        apart = first_apart(times, agree)
        good = self._begins
        for ns in reversed(times[:apart]):
            if agree(ns) and ns in usable:
                good = usable[ns]
                break
        return good, (times[apart], differ[times[apart]]) if apart < len(times) else None

    def _in_common(self) -> list[int]:
        a, b = self._runs
        return sorted(
            {*a.checkpoints()} & {*(b.checkpoints() if self._kept is None else self._kept)}
        )

    def _saved(self, ns: int) -> Both:
        a, b = self._runs
        return a.opened(ns), b.opened(ns) if self._kept is None else self._kept.get(ns)

    # -- repeating the runs ------------------------------------------------------------------------

    def _narrowed(self, good: Both, end: int) -> Beneath:
        lows, place = good, None
        while True:
            low = -1 if lows[0] is None else lows[0].ns
            at = {low + 1, *(low + (end - low) * i // _STATES for i in range(1, _STATES + 1))}
            what = f"searching between {max(low, 0) / NS_PER_S:g} and {end / NS_PER_S:g} s"
            kept = [
                run.repeat(start, end, [ns for ns in at if ns > low], what).kept
                for run, start in zip(self._runs, lows, strict=True)
            ]
            times = sorted(kept[0].keys() & kept[1].keys())
            apart = first_apart(times, self._agree(*kept))
            if apart == len(times):  # the repeated runs no longer differ
                return Beneath(good, place, None if lows[0] is None else lows[0].tag)
            ones = kept[0][times[apart]], kept[1][times[apart]]
            place = self._memory(ones[0].tag, self._parting(*ones))
            if apart == 0:
                return Beneath(good, place, None if lows[0] is None else lows[0].tag)
            lows = kept[0][times[apart - 1]], kept[1][times[apart - 1]]
            end = times[apart]

    def _agree(
        self, a: Mapping[int, Checkpoint], b: Mapping[int, Checkpoint]
    ) -> Callable[[int], bool]:
        return lambda ns: not self._parting(a[ns], b[ns])

    def _memory(self, tag: Tag, pairs: Iterable[ValuePair]) -> Place:
        ranked = sorted(pairs, key=lambda pair: _KINDS.get(part_of(pair.name)[0], 9))
        kind, name = part_of(ranked[0].name)
        recording = self._runs[0].recording
        return Place(
            tag, "memory", name if kind in _KINDS and name else kind,
            "stream" if kind == "streams" else "state",
            tuple(ValuePair(_named(p.name, recording), p.a, p.b, p.source) for p in ranked),
        )  # fmt: skip

    # -- around a place ----------------------------------------------------------------------------

    def around(self, good: Both, before: Tag | None, tag: Tag) -> Around | None:
        """Return the states at the tag ``before``, and the random streams used until ``tag``.

        If ``before`` is ``None`` or at the time of ``tag``, the states are those at the start. The
        runs are repeated from the checkpoints ``good``. The result is ``None`` if the states are
        unknown.
        """
        ns = -1 if before is None or before.ns >= tag.ns else before.ns
        runs = list(zip(self._runs, good, strict=True))
        found: list[Mapping[str, Any]] = []
        streams: list[list[str]] = []
        for one, start in runs if self._kept is None else runs[:1]:
            try:
                kept = one.repeat(start, tag.ns, [ns, tag.ns], "collecting the inputs").kept
                then = one.at_start() if ns < 0 else _at(ns, start, kept)
            except RtsimError as error:
                self.notes.append(f"the use of random streams is not known: {error}")
                return None
            if then is None or tag.ns not in kept:
                return None
            found.append(then)
            streams.append(drawn(then, kept[tag.ns].state))
        return Around((found[0], found[-1]), (streams[0], streams[-1]))


def _at(
    ns: int, start: Checkpoint | None, kept: Mapping[int, Checkpoint]
) -> Mapping[str, Any] | None:
    if ns in kept:
        return kept[ns].state
    return start.state if start is not None and start.ns == ns else None


def _named(path: str, recording: Recording) -> str:
    found = re.fullmatch(r"plants\.(.+)\.values\[(\d+)\]", path)
    track = None if found is None else recording.tracks.get(found[1])
    if found is None or track is None or int(found[2]) >= len(track.signals.columns):
        return path
    return f"{found[1]}.{track.signals.columns[int(found[2])]}"

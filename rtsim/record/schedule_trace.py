"""Traces of the schedules of a recording, for Perfetto's viewer (https://ui.perfetto.dev).

Each processor is a process of the trace, and each of its tasks is a row.  A slice is a part of a
job: running, waiting for the processor, or blocked by a lock.  Messages are arrows (flows) from the
sender to each receiver.  All times are simulated times, in ns.

Source: "Writing TrackEvent Protos Synthetically", perfetto.dev/docs/reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.extras import extra
from rtsim.core.tag import NS_PER_S
from rtsim.record.component_values import MESSAGES, SAMPLED
from rtsim.record.jobs import BLOCKED, WAITING, Integers, Pieces, TaskHistory, processors_of
from rtsim.record.markup import mapping
from rtsim.record.output_files import atomically
from rtsim.record.reading import Recording, TrackData

SUFFIX = ".pftrace"
_NAMES = {WAITING: "waiting", BLOCKED: "blocked"}
_END, _INSTANT, _BEGIN = range(3)
"""Order of the events of one time: the slices end, then messages arrive, then slices begin."""
_COMPONENTS = "components"


class TraceCounts(NamedTuple):
    """Numbers of the rows, slices, arrows and missed deadlines of a trace."""

    tasks: int
    slices: int
    arrows: int
    missed: int


@dataclass
class _Slice:
    """A slice, or an instant if ``end`` equals ``begin``."""

    row: int
    name: str
    begin: int
    end: int
    values: dict[str, int | float] = field(default_factory=dict)
    flows: list[int] = field(default_factory=list)


@dataclass
class _Row:
    """A row of the trace: a task, or another component that sends or receives messages."""

    number: int
    name: str
    group: int
    task: TaskHistory | None = None
    pieces: Pieces | None = None
    slices: list[_Slice] = field(default_factory=list)
    instants: list[_Slice] = field(default_factory=list)

    def running_at(self, ns: int, ending: bool = False) -> _Slice | None:
        """Return the slice in which the task runs at ``ns``, or until ``ns`` if ``ending``."""
        if self.pieces is None:
            return None
        side = "left" if ending else "right"
        at = int(np.searchsorted(self.pieces.begin, ns, side=side)) - 1  # type: ignore[call-overload]
        if at < 0 or self.pieces.state[at] <= 0:
            return None
        end = int(self.pieces.end[at])
        return self.slices[at] if ns < end or (ending and ns == end) else None

    def instant(self, name: str, ns: int) -> _Slice:
        made = _Slice(self.number, name, ns, ns)
        self.instants.append(made)
        return made


def write_trace(recording: Recording, path: Path, span_ns: tuple[int, int]) -> TraceCounts:
    """Write the schedules within the time span ``span_ns`` to a new file.

    Raises :class:`ScenarioError` if the package ``perfetto`` is missing, and
    :class:`RecordingError` if the recording has no processor or the file cannot be written.
    """
    protos = extra("perfetto.protos.perfetto.trace.perfetto_trace_pb2", "data", "a Perfetto trace")
    made = _Trace(recording, span_ns)
    try:
        with atomically(path) as beside, beside.open("wb") as file:
            for packet in made.packets(protos):
                file.write(protos.Trace(packet=[packet]).SerializeToString())
    except OSError as error:
        why = error.strerror or str(error)
        raise RecordingError(f"cannot write {path}: {why}; give another path") from error
    return made.counts


class _Trace:
    def __init__(self, recording: Recording, span_ns: tuple[int, int]) -> None:
        self._recording, self._span = recording, span_ns
        self._rows: dict[str, _Row] = {}
        self._groups: list[str] = []
        self._arrows = 0
        for processor in processors_of(recording):
            self._groups.append(processor.name)
            for task in processor.tasks:
                self._add(task.name, len(self._groups), task)
        if not self._groups:
            raise RecordingError(
                f"{recording.source} has no schedule, because its scenario has no processor; a "
                f"file with the suffix {SUFFIX} contains only schedules"
            )
        self._tasks = len(self._rows)
        self._groups.append(_COMPONENTS)
        for topic in self._topics():
            self._send(topic)

    @property
    def counts(self) -> TraceCounts:
        rows = self._rows.values()
        missed = sum(len(self._missed(row)) for row in rows)
        return TraceCounts(self._tasks, sum(len(r.slices) for r in rows), self._arrows, missed)

    def _add(self, name: str, group: int, task: TaskHistory | None = None) -> _Row:
        row = self._rows[name] = _Row(len(self._rows) + 1, name, group, task)
        if task is not None:
            row.pieces = task.pieces.within(*self._span)
            row.slices = list(_slices(row.number, row.pieces, task))
            for ns in self._missed(row):
                row.instant("deadline missed", ns)
        return row

    def _missed(self, row: _Row) -> list[int]:
        found = [] if row.task is None else row.task.missed.tolist()
        return [ns for ns in found if self._span[0] <= ns <= self._span[1]]

    # -- messages

    def _topics(self) -> list[TrackData]:
        tracks = self._recording.tracks.items()
        return [t for n, t in tracks if n.startswith(MESSAGES) and not n.endswith(SAMPLED)]

    @cached_property
    def _parts(self) -> Mapping[str, Any]:
        return mapping(mapping(self._recording.header.get("scenario")).get("parts"))

    def _receivers(self, topic: str) -> list[str]:
        """Return the names of the components that read ``topic`` or are released by it."""
        found = []
        for name, part in self._parts.items():
            about = mapping(part)
            read = [str(s).partition(".")[0] for s in mapping(about.get("inputs")).values()]
            on = about.get("on")
            if topic in read or (isinstance(on, list) and topic in on):
                found.append(name)
        return found

    def _send(self, topic: TrackData) -> None:
        name = topic.name.removeprefix(MESSAGES)
        completed, arrival = topic.integer("completed"), topic.integer("arrival")
        inside = (completed >= self._span[0]) & (arrival <= self._span[1]) & (arrival >= 0)
        source, receivers = str(topic.about.get("source", "")), self._receivers(name)
        if not inside.any() or not receivers:
            return
        sender = self._row(source)
        samples = {one: self._samples(one) for one in receivers}
        arrivals = np.sort(arrival[inside])
        for sent, came in zip(completed[inside].tolist(), arrival[inside].tolist(), strict=True):
            begin = sender.running_at(sent, ending=True) or sender.instant(f"{name} sent", sent)
            for one in receivers:
                self._arrows += 1
                row = self._row(one)
                ends = [begin, row.instant(name, came)]
                job = _reader(row, samples[one], arrivals, came)
                for end in ends if job is None else [*ends, job]:
                    end.flows.append(self._arrows)

    def _row(self, name: str) -> _Row:
        return self._rows.get(name) or self._add(name, len(self._groups))

    def _samples(self, controller: str) -> Integers:
        track = self._recording.tracks.get(f"{MESSAGES}{controller}{SAMPLED}")
        return np.zeros(0, np.int64) if track is None else np.sort(track.integer("initiated"))

    # -- packets

    def packets(self, protos: Any) -> Iterator[Any]:
        """Yield the packets of the trace, in the order of their times."""
        used = {row.group for row in self._rows.values()}
        for number, name in enumerate(self._groups, 1):
            if number not in used:
                continue
            packet = protos.TracePacket()
            about = packet.track_descriptor
            about.uuid = number
            about.process.pid, about.process.process_name = number, name
            about.child_ordering = protos.TrackDescriptor.EXPLICIT
            yield packet
        for row in self._rows.values():
            packet = protos.TracePacket()
            about = packet.track_descriptor
            about.uuid, about.parent_uuid = self._uuid(row.number), row.group
            about.name, about.sibling_order_rank = row.name, row.number
            yield packet
        for ns, kind, one in sorted(self._events(), key=lambda event: event[:2]):
            yield self._packet(protos, ns, kind, one)

    def _uuid(self, row: int) -> int:
        return len(self._groups) + row

    def _events(self) -> Iterator[tuple[int, int, _Slice]]:
        for row in self._rows.values():
            for one in row.slices:
                yield one.begin, _BEGIN, one
                yield one.end, _END, one
            for one in row.instants:
                yield one.begin, _INSTANT, one

    def _packet(self, protos: Any, ns: int, kind: int, one: _Slice) -> Any:
        packet = protos.TracePacket(timestamp=ns, trusted_packet_sequence_id=1)
        event, types = packet.track_event, protos.TrackEvent
        event.track_uuid = self._uuid(one.row)
        event.type = (types.TYPE_SLICE_END, types.TYPE_INSTANT, types.TYPE_SLICE_BEGIN)[kind]
        if kind == _END:
            return packet
        event.name = one.name
        event.flow_ids.extend(one.flows)
        for name, value in one.values.items():
            note = event.debug_annotations.add(name=name)
            if isinstance(value, int):
                note.int_value = value
            else:
                note.double_value = value
        return packet


def _slices(row: int, pieces: Pieces, task: TaskHistory) -> Iterator[_Slice]:
    numbers, arrivals, limits = (task.jobs(c).tolist() for c in ("number", "arrival", "deadline"))
    for begin, end, state, job in zip(*(column.tolist() for column in pieces), strict=True):
        values: dict[str, int | float] = {} if state < 0 else {"core": state}
        if job < len(numbers):
            values |= {
                "job": numbers[job],
                "arrival [s]": arrivals[job] / NS_PER_S,
                "deadline [s]": limits[job] / NS_PER_S,
            }
        yield _Slice(row, _NAMES.get(state, "running"), begin, end, values)


def _reader(row: _Row, samples: Integers, arrivals: Integers, came: int) -> _Slice | None:
    """Return the slice in which a job samples the message that arrived at ``came``, if any.

    ``samples`` are the times at which jobs sample, and ``arrivals`` all arrivals of the topic.
    """
    at = int(np.searchsorted(samples, came))
    if at == len(samples):
        return None
    sample = int(samples[at])
    newer = int(np.searchsorted(arrivals, sample, side="right"))
    found = row.running_at(sample) if int(arrivals[newer - 1]) == came else None
    return found if found is not None and found.begin >= came else None


def check_options(chosen: Sequence[str]) -> None:
    """Raise :class:`ScenarioError` if options of tables are ``chosen`` for a trace."""
    if chosen:
        raise ScenarioError(
            f"{', '.join(chosen)}: a {SUFFIX} file contains the whole schedule; leave these "
            "options out, or give the suffix of a table"
        )

"""Run SimPy processes as a task, and restore them from a log.

The task reacts at the next event of its processes, at messages and at guards. A reaction processes
all due events in SimPy's order. Other components receive only the values at the end of the
reaction.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rtsim.components.plant import RunningPlant
from rtsim.components.ports import SignalPort, Wiring
from rtsim.components.tasks import Environment
from rtsim.core.errors import CheckpointError, RtsimError, ScenarioError, UnknownName
from rtsim.core.raised import attribute_to
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Period, Tag
from rtsim.discrete.agenda import Agenda, Changed, Effect, Told
from rtsim.discrete.declaration import Processes
from rtsim.engine.advance import Loop
from rtsim.engine.process_batch import Messages, Ran, RecordEvent
from rtsim.engine.system import Changeable
from rtsim.record.events import CHANGE

MOST_BYTES = 256 << 20
"""Maximum size of the log (bytes)."""
SAMPLED = -1
"""The name index of a row with inputs and parameters, which is written when a value has changed."""


class Stimuli:
    """A log of the inputs, parameters, messages and fired guards that the processes received.

    To restore the processes, the task runs them again with the values in the log. ``names`` are the
    topics and guards.
    """

    def __init__(self, names: Sequence[str], sizes: Mapping[str, int], sampled: int) -> None:
        self._names = list(names)
        self._index = {name: i for i, name in enumerate(names)}
        self._sizes = [sizes.get(name, 0) for name in names]
        self._sampled = sampled
        self._rows = array("q")
        """Three integers per row: ns, microstep, index of the name."""
        self._values = array("d")
        self.complete = True
        """False if rows are missing because the log was full."""

    def sampled(self, tag: Tag, vector: Vector) -> None:
        self._add(tag, SAMPLED, vector)

    def heard(self, tag: Tag, name: str, payload: Vector | None) -> None:
        self._add(tag, self._index[name], payload)

    def _add(self, tag: Tag, which: int, values: Vector | None) -> None:
        if 8 * (len(self._rows) + len(self._values)) > MOST_BYTES:
            self.complete = False
            return
        self._rows.extend((tag.ns, tag.step, which))
        if values is not None:
            self._values.frombytes(np.ascontiguousarray(values, dtype=np.float64).tobytes())

    def __iter__(self) -> Iterator[tuple[Tag, str | None, Vector]]:
        """Yield the tag, name and values of each log entry.

        The name of an entry with inputs and parameters is ``None``. A fired guard has no values.
        """
        values = np.array(self._values)
        at = 0
        for k in range(0, len(self._rows), 3):
            ns, step, which = self._rows[k : k + 3]
            size = self._sampled if which == SAMPLED else self._sizes[which]
            name = None if which == SAMPLED else self._names[which]
            yield Tag(ns, step), name, values[at : at + size]
            at += size

    def save(self) -> dict[str, Any]:
        return {
            "complete": self.complete,
            "names": list(self._names),
            "rows": np.array(self._rows, dtype=np.int64),
            "values": np.array(self._values, dtype=np.float64),
        }

    def restore(self, saved: Mapping[str, Any], owner: str) -> None:
        """Restore a saved log.

        Raises :class:`CheckpointError` if the log is incomplete or belongs to other processes.
        """
        if not saved["complete"]:
            raise CheckpointError(
                f"{owner} cannot be restored: its inputs and messages before this checkpoint "
                f"are more than {MOST_BYTES >> 20} MB, the limit; use an earlier checkpoint"
            )
        rows = np.asarray(saved["rows"], dtype=np.int64)
        values = np.asarray(saved["values"], dtype=np.float64)
        which = rows[2::3]
        if (
            list(saved["names"]) != self._names
            or len(rows) % 3
            or np.any((which < SAMPLED) | (which >= len(self._names)))
        ):
            raise CheckpointError(
                f"{owner} receives other messages and guards than when it was saved; "
                "restore with the scenario that was saved"
            )
        sizes = np.array([*self._sizes, self._sampled])  # the last size belongs to SAMPLED (-1)
        if int(sizes[which].sum()) != len(values):
            raise CheckpointError(
                f"{owner} has other inputs than when it was saved; "
                "restore with the scenario that was saved"
            )
        self._rows, self._values = array("q", rows.tobytes()), array("d", values.tobytes())
        self.complete = True


class ProcessesTask:
    period: Period | None = None

    def __init__(
        self,
        name: str,
        processes: Processes,
        wiring: Wiring,
        p: Vector,
        on: Sequence[str],
        seed: int,
        changeable: Mapping[str, Changeable],
        priority: int = 0,
    ) -> None:
        self.name = name
        self.priority = priority
        self.wiring = wiring
        self.p = p
        self.next_ns = 0
        self.changeable = changeable
        """The values that the processes can change, by name."""
        self.topics: dict[str, Signals] = {}
        """The signals of each topic in ``on``."""
        self._processes = processes
        self._on = tuple(sorted(on))
        self._seed = seed
        self._heard: list[tuple[str, Vector | None]] = []
        topics = [*([name] if processes.outputs.size else []), *processes.messages]
        self.sends = {topic.encode(): topic for topic in topics}
        """The topics on which the processes send messages, by their names in UTF-8."""
        self._start_anew()

    def _start_anew(self) -> None:
        streams = RandomStreams(self._seed)
        self._agenda = Agenda(self.name, self._processes, self._on, self.p.copy(), streams)
        self._agenda.topics = self.topics
        self._begun = False
        self._ns = 0
        """Time of the last reaction (ns)."""
        self._sampled: bytes | None = None
        self._checksum = 0
        sizes = {name: signals.size for name, signals in self.topics.items()}
        sampled = self.wiring.into.size + self.p.size
        self._stimuli = Stimuli(self._on, sizes, sampled)
        self._heard.clear()

    def listen(self, topics: Mapping[str, Signals]) -> None:
        """Before the run, set the signals of each topic that the processes receive."""
        self.topics = dict(topics)
        self._start_anew()

    def ticked(self) -> None: ...

    def hear(self, name: str, payload: Vector | None) -> None:
        """Store a message for the next reaction; a ``payload`` of None means a fired guard."""
        self._heard.append((name, payload))

    def react(self, tag: Tag, environment: Environment) -> None:
        self._gather(tag)
        for name, payload in self._heard:
            self._stimuli.heard(tag, name, payload)
        heard, self._heard = self._heard, []
        for topic, effect, _ in self._run(tag, heard):
            if isinstance(effect, bytes):
                environment.send(self.sends[topic], tag, tag, np.frombuffer(effect))
            elif isinstance(effect, Changed):
                self._change(effect, tag, environment)
            else:
                environment.event(tag, effect.kind, self.name, effect.text, dict(effect.values))

    def can_run_batch(self) -> bool:
        return self._begun and not self._heard and not self._agenda.kept

    def run_batch(self, limit_ns: int, most: int, loop: Loop, event: RecordEvent) -> Ran:
        """Run up to ``most`` reactions before ``limit_ns``.

        Call this method only if no other component acts before ``limit_ns``. The method calls
        ``event`` with each event to record. The result excludes a reaction that fails or that
        changes another component. :meth:`react` handles this reaction at its tag.
        """
        agenda = self._agenda
        self._gather(Tag(self.next_ns))
        effects, reactions = agenda.run_batch(limit_ns, most, loop)
        if reactions:
            self._add_to_checksum(effects)
            self._ns = agenda.complete_ns
        self.next_ns = agenda.next_ns
        messages: Messages = [e for e in effects if isinstance(e[1], bytes)]  # type: ignore[misc]
        if len(messages) < len(effects):
            for _, effect, ns in effects:
                if isinstance(effect, Told):
                    event(Tag(ns), effect.kind, self.name, effect.text, dict(effect.values))
        return Ran(messages, reactions, self._ns)

    def _gather(self, tag: Tag) -> None:
        self.wiring.gather()
        values = self.wiring.into.tobytes() + self.p.tobytes()
        if values != self._sampled:
            sampled = np.frombuffer(values)
            self._stimuli.sampled(tag, sampled)
            self._sample(sampled)

    def _sample(self, sampled: Vector) -> None:
        self._sampled = sampled.tobytes()
        agenda = self._agenda
        agenda.inputs[:], agenda.p[:] = np.split(sampled, [agenda.inputs.size])

    def _run(self, tag: Tag, heard: Sequence[tuple[str, Vector | None]]) -> list[Effect]:
        agenda = self._agenda
        try:
            if not self._begun:
                self._begun = True
                agenda.begin()
            for name, payload in heard:
                agenda.hear(tag.ns, name, payload)
            effects = agenda.react(tag.ns)
        except RtsimError as error:
            if self.name not in str(error):
                error.add_note(f"in the processes of {self.name} at {tag}")
            raise
        except BaseException as error:
            attribute_to(f"a process of {self.name}", tag, error, sure=True)
        self._ns, self.next_ns = tag.ns, agenda.next_ns
        self._add_to_checksum(effects)
        return effects

    def _add_to_checksum(self, effects: Sequence[Effect]) -> None:
        data = b"".join(
            [
                topic + effect if isinstance(effect, bytes) else repr(effect).encode()
                for topic, effect, _ in effects
            ]
        )
        self._checksum = zlib.crc32(data, self._checksum)

    def _change(self, effect: Changed, tag: Tag, environment: Environment) -> None:
        if effect.target not in self.changeable:
            raise UnknownName("value", effect.target, self.changeable, f"change() of {self.name}")
        change = self.changeable[effect.target].change(tag.ns, effect.value)
        if not isinstance(change.owner, RunningPlant | SignalPort):
            raise ScenarioError(
                f"{self.name} cannot change {effect.target}: change() works for parameters of "
                "plants and values of sources only; send the value as an input"
            )
        environment.write(change.vector[change.where], change.value, change.owner)
        target, many = effect.target, change.value.size > 1
        values = {f"{target}_{i}" if many else target: float(v) for i, v in enumerate(change.value)}
        environment.event(tag, CHANGE, effect.target, "", values)

    def save(self) -> dict[str, Any]:
        return {
            "begun": self._begun,
            "ns": self._ns,
            "next": self.next_ns,
            "seed": self._seed,
            "events": self._agenda.count,
            "checksum": self._checksum,
            "p": self.p.tolist(),
            "inputs": self.wiring.into.tolist(),
            "stimuli": self._stimuli.save(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Run the processes again from the start to the saved time, with the saved stimuli."""
        self.p[:] = saved["p"]
        self.wiring.into[:] = saved["inputs"]
        self._seed = saved["seed"]
        self._start_anew()
        self.next_ns = 0
        self._stimuli.restore(saved["stimuli"], self.name)
        if not saved["begun"]:
            return
        self._run_again(int(saved["ns"]))
        came_to = (self._checksum, self._agenda.count, self.next_ns)
        if came_to != (saved["checksum"], saved["events"], saved["next"]):
            raise CheckpointError(
                f"the processes of {self.name} cannot be restored: rtsim ran them again up to "
                f"{Tag(int(saved['ns']))}, and their state differs from the saved state. In "
                "processes, draw random numbers only from agenda.random(), read no clock, and "
                "use no variables from outside the set-up"
            )

    def _run_again(self, until_ns: int) -> None:
        heard: list[tuple[str, Vector | None]] = []
        now: Tag | None = None
        for tag, name, values in self._stimuli:
            if now is not None and tag != now:
                self._run(now, heard)
                heard = []
            if tag != now:
                self._up_to(tag.ns if tag.step else tag.ns - 1)
            now = tag
            if name is None:
                self._sample(values)
            else:
                heard.append((name, values.copy() if name in self.topics else None))
        if now is not None:
            self._run(now, heard)
        self._up_to(until_ns)

    def _up_to(self, ns: int) -> None:
        while self._begun and self.next_ns <= ns:
            self._run(Tag(self.next_ns), ())

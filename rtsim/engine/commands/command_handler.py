"""Execute commands at existing tags of a run.

Another thread or process puts commands into ``CommandHandler.inbox``, and receives their results. A
replay puts the recorded commands into the inbox with their tags.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rtsim.components.protocols import free_running, paced
from rtsim.core.errors import RtsimError
from rtsim.core.raised import Interrupted
from rtsim.core.signals import Vector
from rtsim.core.tag import NEVER, NS_PER_S, Tag, to_ns
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.checkpoint.schedule import CheckpointSchedule, check_savable
from rtsim.engine.commands.commands import (
    MOST_WAITING,
    NEXT_TAG,
    Command,
    CommandError,
    Inbox,
    PendingCommand,
)
from rtsim.engine.faults.schedule import Schedule
from rtsim.engine.system import Change, System
from rtsim.engine.trace import RESTORED, Trace
from rtsim.timing.pacing import Pacer

_LOOK_S = 1.0
ALONE = "Unreachable"
"""Kind of the event that records when clients lost the connection to the run."""
AT_A_TAG = ("set", "inject", "fault", "mark")
"""Kinds of commands that act at a tag and are repeated in a replay."""


class CommandHandler:
    """Execute the commands of a run at tags and during pauses."""

    def __init__(
        self,
        inbox: Inbox,
        system: System,
        pacer: Pacer,
        trace: Trace,
        checkpoints: CheckpointSchedule | None = None,
        stopping: Callable[[], object] = bool,
    ) -> None:
        """Prepare for a run; ``stopping`` returns True if the run ends after the present tag."""
        self.inbox = inbox
        self.quitting = False
        self.resting = False
        """True while a paused run waits for a command; a signal handler may then raise an error."""
        self._stopping = stopping
        self.restored: Checkpoint | None = None
        """Checkpoint from which the next segment continues; the present segment then ends."""
        self.checkpoints = checkpoints
        self._system, self._pacer, self._trace = system, pacer, trace
        self._standing = inbox.standing
        self._until_ns: int | None = None
        self._tags = 0
        self._changes: list[Change] = []
        self._alone = False
        self._between_ns: int | None = None
        """Simulated time during a wait for the next tag, ns; None outside a wait."""
        self._follow: dict[str, Callable[[Command, Tag], None]] = {
            "pause": self._pause, "resume": self._resume, "step": self._step, "rate": self._rate,
            "set": self._set, "inject": self._inject, "mark": self._mark, "quit": self._quit,
            "fault": self._fault, "checkpoint": self._checkpoint, "restore": self._restore,
        }  # fmt: skip
        inbox.attach(system, pacer, trace)

    # Within a tag.

    def latch(self, tag: Tag) -> list[Change]:
        """Execute the commands that have arrived; return the changes at this tag."""
        self.inbox.poll()
        if self.inbox.trouble and not self._alone:
            self._alone = True
            self._trace.event(tag, ALONE, "gateway", self.inbox.trouble, {})
        waiting = self.inbox.waiting
        if not waiting:
            return []
        self._changes = []
        for _ in range(min(len(waiting), MOST_WAITING)):
            if waiting[0].ns > tag.ns or self.restored is not None:
                break
            self._take(waiting.popleft(), tag)
        if self._system.faults is not None:
            self._system.faults.follow(tag.ns)
        return self._changes

    def _take(self, waiting: PendingCommand, tag: Tag) -> None:
        command = waiting.command
        try:
            self._follow[command.kind](command, tag)
        except RtsimError as error:
            if waiting.answer is not None:
                waiting.answer(str(error), tag.ns)
            return
        stamps = {"initiated": command.initiated_ns, "completed": command.completed_ns}
        if self._between_ns is not None:
            stamps["between"] = self._between_ns
        self._trace.command(tag, command.kind, command.to_json(), stamps)
        if waiting.answer is not None:
            waiting.answer("", tag.ns)

    def _set(self, command: Command, tag: Tag) -> None:
        self._changes.append(self._change(command, tag.ns))

    def _change(self, command: Command, ns: int) -> Change:
        target, value = str(command.arguments["target"]), command.arguments["value"]
        known = self._system.changeable.get(target)
        unit = command.arguments.get("unit")
        if known is not None and unit is not None:
            declared = known.signals[known.name]
            if unit != declared.unit:
                raise CommandError(
                    f"set: the value was given in {unit}, but {target} is in {declared.unit}, "
                    f"and units are not converted; give a value from {declared.low:g} to "
                    f"{declared.high:g} {declared.unit}"
                )
        return self._system.change(ns, target, value)

    def _inject(self, command: Command, tag: Tag) -> None:
        topic, payload = self._message(command)
        self._trace.message(self._system.bus.inject(topic, tag, payload))

    def _message(self, command: Command) -> tuple[str, Vector]:
        topic = str(command.arguments["topic"])
        payload = np.array(command.arguments["value"], dtype=np.float64).ravel()
        self._system.check_message(topic, payload)
        return topic, payload

    def _fault(self, command: Command, tag: Tag) -> None:
        name, do = str(command.arguments["name"]), str(command.arguments["do"])
        self._faults().command(name, do, tag.ns)

    def _faults(self) -> Schedule:
        faults = self._system.faults
        if faults is None:
            raise CommandError("this run has no faults; declare some with --faults FILE")
        return faults

    def _checkpoint(self, command: Command, tag: Tag) -> None:  # noqa: ARG002
        if self.checkpoints is None:
            raise CommandError(
                "checkpoints are stored next to a recording, and this run writes no recording"
            )
        check_savable(self._system)
        self.checkpoints.ask(tag.ns)

    def _restore(self, command: Command, tag: Tag) -> None:
        self._held_anyway("a restore")
        check_savable(self._system)
        for task in self._system.controllers:
            if paced(task.controller):
                raise CommandError(
                    f"restore is refused: {task.name} is a board in real time, and its clock "
                    "cannot go back"
                )
        ns = _wanted_ns(command, tag.ns)
        past = None if self.checkpoints is None else self.checkpoints.past
        found = None if past is None else past.before(ns)
        if found is None:
            raise CommandError(
                f"there is no checkpoint at or before {Tag(ns)}; the command checkpoint saves one, "
                "--rewind SECONDS keeps the last seconds, --checkpoint-every S saves one every S "
                "seconds"
            )
        self.inbox.standing = self._standing or bool(self._tags) or self._until_ns is not None
        self.restored, self.quitting = found, True
        text = f"the run resumes from {found.tag} in another recording"
        self._trace.event(tag, RESTORED, "", text, {"ns": float(found.ns)})

    def _mark(self, command: Command, tag: Tag) -> None:
        """Do nothing; the command only appears in the recording."""

    def _quit(self, command: Command, tag: Tag) -> None:  # noqa: ARG002
        self.quitting = True

    # Pausing, stepping and the rate.

    def _pause(self, command: Command, tag: Tag) -> None:  # noqa: ARG002
        self._held_anyway("pause")
        self._standing, self._until_ns, self._tags = True, None, 0

    def _resume(self, command: Command, tag: Tag) -> None:  # noqa: ARG002
        self._standing, self._until_ns, self._tags = False, None, 0

    def _step(self, command: Command, tag: Tag) -> None:
        self._held_anyway("a single step")
        arguments = command.arguments
        until: int | None = None
        tags = 0
        if "task" in arguments:
            until = self._system.next_tick(str(arguments["task"]), tag.ns)
        elif "duration" in arguments:
            until = tag.ns + to_ns(float(arguments["duration"]), "duration")  # type: ignore[arg-type]
        else:
            tags = round(float(arguments.get("tags", 1.0)))  # type: ignore[arg-type]
        self._standing, self._until_ns, self._tags = False, until, tags

    def _rate(self, command: Command, tag: Tag) -> None:
        rate = command.arguments["rate"]
        if rate != 1.0:
            self._held_anyway(f"a rate of {rate}")
        asked = None if rate == "max" else float(rate)  # type: ignore[arg-type]
        self._pacer.set_rate(asked, tag.ns if self._between_ns is None else self._between_ns)

    def _held_anyway(self, what: str) -> None:
        for task in self._system.controllers:
            if free_running(task.controller):
                raise CommandError(
                    f"{what} is refused: {task.name} runs on its own clock and cannot be "
                    "paused; if the controller can be paused, write hold = true in its rig "
                    "file"
                )

    # Between tags.

    def quiet_until(self) -> int:
        """Return the time (ns) before which no command takes effect."""
        self.inbox.poll()
        standing = self._standing or self._tags or self._until_ns is not None
        if standing or (self.inbox.trouble and not self._alone):
            return -1
        return self.inbox.waiting[0].ns if self.inbox.waiting else NEVER.ns

    def begin(self, ns: int, next_ns: int = 0) -> None:
        """Pause after the tag at ``ns`` if a command has requested a pause.

        The method is called at the beginning of a run, and after a wait for a tag that ended early.
        """
        if next_ns and self.checkpoints is not None:
            self.checkpoints.observe(ns)  # a command may have requested a checkpoint at this tag
        if self._standing and not self.quitting:
            self._stand(ns, next_ns)

    def after(self, ns: int) -> None:
        if self._tags:
            self._tags -= 1
            self._standing = self._standing or self._tags == 0
        if self._until_ns is not None and ns >= self._until_ns:
            self._standing, self._until_ns = True, None
        if self._standing and not self.quitting:
            self._stand(ns)
        self.inbox.after(ns, standing=False)

    def execute_in_wait(self, ns: int, next_ns: int) -> bool:
        """Execute commands during a long wait; return True to end the wait.

        A command that needs a tag takes effect at ``next_ns``.
        """
        inbox, later, cut = self.inbox, list[PendingCommand](), False
        inbox.poll()
        self._between_ns = self._on_the_way(ns, next_ns)
        try:
            while inbox.waiting and not (self.quitting or self._standing):
                waiting = inbox.waiting.popleft()
                if waiting.ns > ns:
                    later.append(waiting)
                elif waiting.command.kind in AT_A_TAG:
                    later += self._put_off(waiting, Tag(ns), next_ns)
                else:
                    cut = True
                    self._take(waiting, Tag(ns))
        finally:
            self._between_ns = None
            self._keep(later)
        if not cut:
            inbox.after(ns, standing=False)
        return cut

    def _on_the_way(self, ns: int, next_ns: int) -> int:
        clock = self._pacer.clock
        return max(ns, min(clock.simulated(clock.now()), next_ns))

    def _keep(self, later: list[PendingCommand]) -> None:
        """Put postponed commands back at the front of the queue."""
        if self.restored is None:
            self.inbox.waiting.extendleft(reversed(later))

    def _stand(self, ns: int, next_ns: int = 0) -> None:
        self._between_ns = self._on_the_way(ns, next_ns) if next_ns else None
        self._pacer.hold(self._between_ns)
        self._listen(ns)
        self._between_ns = None
        self._stood(self._pacer.end_hold(ns))

    def frozen(self, ns: int) -> None:
        """Wait until a command resumes a run that an overrun has frozen.

        Raises ``OverrunError`` after the longest time that the policy allows.
        """
        began, self._standing = self._pacer.clock.now(), True
        self._listen(ns)
        self._pacer.resume()
        self._stood(self._pacer.clock.now() - began)

    def _listen(self, ns: int) -> None:
        inbox, tag, pacer = self.inbox, Tag(ns), self._pacer
        later: list[PendingCommand] = []
        while self._standing and not (self.quitting or self._stopping()):
            inbox.poll()
            if not inbox.waiting:
                left = pacer.patience_left_ns() / NS_PER_S if pacer.frozen else _LOOK_S
                inbox.after(ns, standing=True)
                self._wait_for_command(min(_LOOK_S, left))
                continue
            waiting = inbox.waiting.popleft()
            if waiting.command.kind in AT_A_TAG:
                later += self._put_off(waiting, tag)
            else:
                self._take(waiting, tag)
                if self.checkpoints is not None and self.checkpoints.next_ns <= ns:
                    self.checkpoints.observe(ns)
                    self.checkpoints.write()
        self._keep(later)

    def _wait_for_command(self, seconds: float) -> None:
        self.resting = True
        try:
            self.inbox.wait(seconds)
        except Interrupted:
            pass  # the executive has recorded why the run ends
        finally:
            self.resting = False

    def _stood(self, ns: int) -> None:
        """Add the duration ``ns`` of a pause to the send times of open requests."""
        for task in self._system.controllers:
            if task.request is not None:
                task.request.sent += ns

    def _put_off(
        self, waiting: PendingCommand, tag: Tag, next_ns: int = NEXT_TAG
    ) -> list[PendingCommand]:
        command, wrong = waiting.command, ""
        try:
            if command.kind == "set":
                self._change(command, tag.ns)
            elif command.kind == "inject":
                self._message(command)
            elif command.kind == "fault":
                self._faults().check(str(command.arguments["name"]))
        except RtsimError as error:
            wrong = str(error)
        if waiting.answer is not None:
            waiting.answer(wrong, next_ns)
        return [] if wrong else [PendingCommand(command, None, max(0, next_ns))]


def _wanted_ns(command: Command, now: int) -> int:
    arguments = command.arguments
    if "at" in arguments:
        ns = to_ns(float(arguments["at"]), "time to go back to")  # type: ignore[arg-type]
        if ns > now:
            raise CommandError(
                f"restore cannot go forward to {Tag(ns)}, because the run is at {Tag(now)}; "
                "give an earlier time"
            )
        return ns
    back = float(arguments.get("back", 0.0))  # type: ignore[arg-type]
    return max(0, now - to_ns(back, "time to go back by"))

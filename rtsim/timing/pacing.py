"""The pacer, which waits for each tag, measures the timing, and applies the overrun policy.

The executive uses the pacer in this loop (see ``docs/realtime.md``)::

    pacer.start(ns)
    while not pacer.begin(ns):            # a freeze
        ...
    ...                                   run the first tag
    while True:
        ...                               propagate towards the next tag
        reached = pacer.wait(ns, wake)
        if pacer.overrun is not None:
            ...                           record it
        if not reached:                   # an event input or a freeze ended the wait
            continue
        ...                               commit, deliver, react, record; pacer.lap(job) after each
        pacer.ready(ns)
    pacer.stop()

A *frame* begins with a tag and ends when the loop is ready to wait for the next tag. The duration
of a frame is its compute time. A tag that begins more than ``tolerance_ns`` late is an overrun. The
cause of an overrun is ``compute`` or ``wake``, whichever was longer. The *margin* of a frame is the
time that it could have taken longer without an overrun. A positive margin is good.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import assert_never

from rtsim.core.clock import Clock, VirtualClock, Wake, WallClock, stopwatch
from rtsim.core.errors import OverrunError, ScenarioError
from rtsim.timing.frames import ENOUGH, NO_SAMPLE, Frame, FrameLog
from rtsim.timing.policy import (
    ACTIONS,
    UNKNOWN_NS,
    Action,
    CatchUp,
    CaughtUp,
    Cause,
    LateTag,
    Overrun,
    Policy,
    advice,
)

# Counts of overruns by cause, counts of consecutive overruns, and the action of the policy.


class Ledger:
    """Counts of the overruns of one run.

    For the limit of the overrun policy, late tags within ``frame_ns`` count as one late frame.
    """

    def __init__(self, policy: Policy, frame_ns: int) -> None:
        self.overruns: dict[Cause, int] = {"compute": 0, "wake": 0}
        self.blamed: dict[str, int] = {}
        """Number of overruns caused by ``compute``, for each responsible job."""
        self.in_line: int | None = None
        """Number of overruns caused by ``wake`` in which the loop mostly waited for a CPU.

        ``None`` if the system did not report this time for any overrun.
        """
        self._policy, self._frame_ns = policy, frame_ns
        self.on_time()

    def on_time(self) -> None:
        """Set the number of consecutive late frames to 0."""
        self._consecutive, self._counted_ns = 0, 0

    @property
    def in_a_row(self) -> tuple[int, int, int]:
        """Number of consecutive late frames, tag (ns) of the last one, and ``frame_ns``."""
        return self._consecutive, self._counted_ns, self._frame_ns

    def caught_up(self, overruns: CaughtUp, consecutive: int, counted_ns: int) -> None:
        """Add the overruns that compiled code has recorded."""
        for _, late, by_wake, job, stood, _ in overruns.rows.tolist():
            self.overruns["wake" if by_wake else "compute"] += 1
            if overruns.jobs[job]:
                self.blamed[overruns.jobs[job]] = self.blamed.get(overruns.jobs[job], 0) + 1
            if stood != UNKNOWN_NS:
                self.in_line = (self.in_line or 0) + (2 * stood > late)
        self._consecutive, self._counted_ns = consecutive, counted_ns

    def judge(
        self, ns: int, late: int, cause: Cause, job: str = "", stood_ns: int | None = None
    ) -> Overrun:
        """Count and return the overrun of the tag at ``ns``.

        ``late`` is the lateness of the tag (ns). ``job`` is the longest job of the frame.
        ``stood_ns`` is the time for which the loop waited for a CPU (ns).
        """
        if self._consecutive == 0 or ns - self._counted_ns >= self._frame_ns:
            self._consecutive += 1
            self._counted_ns = ns
        self.overruns[cause] += 1
        if job:
            self.blamed[job] = self.blamed.get(job, 0) + 1
        if stood_ns is not None:
            self.in_line = (self.in_line or 0) + (2 * stood_ns > late)
        return Overrun(
            tag_ns=ns,
            cause=cause,
            amount_ns=late,
            job=job,
            action=self._action(ns, late, cause),
            consecutive=self._consecutive,
            allowed=self._policy.allowed,
            stood_ns=stood_ns,
        )

    def limit(self, overrun: Overrun) -> OverrunError:
        """Return the error that ends the run if the action of ``overrun`` is ``abort``."""
        return OverrunError(f"{overrun}; {advice(self._policy, overrun.consecutive)}")

    def _action(self, ns: int, late: int, cause: Cause) -> Action:
        total = sum(self.overruns.values())
        action = self._policy.answer(LateTag(ns, late, cause, self._consecutive, total))
        if action not in ACTIONS:
            raise ScenarioError(
                f"overrun policy {self._policy.name} returned {action!r}; expected one of "
                f"{', '.join(ACTIONS)}"
            )
        return action


# How long a thread was ready to run but waited for a CPU (Linux's *run delay*).

_FILE = "/proc/thread-self/schedstat"
_LONG = 96  # three numbers of 64 bits, and the spaces between them


class RunQueue:
    """Measure how long the calling thread waits for a CPU.

    In tests, ``read`` replaces the system's counter.
    """

    def __init__(self, read: Callable[[], int] | None = None) -> None:
        self._file = -1
        self._read = read or self._run_delay
        self._before: int | None = None
        if read is None:
            with suppress(OSError):
                self._file = os.open(_FILE, os.O_RDONLY)

    def note(self) -> None:
        """Begin to measure the wait for a CPU. The call takes about 1 us."""
        try:
            self._before = self._read()
        except (OSError, ValueError):  # this system does not report the run delay
            self._before = None

    def stood_ns(self) -> int | None:
        """Return the wait for a CPU (ns) since the last call of ``note``, or ``None``."""
        before = self._before
        if before is None:
            return None
        self.note()
        return None if self._before is None else self._before - before

    @property
    def file(self) -> int:
        """Descriptor of the open counter file, or -1."""
        return self._file

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
        self._before = None

    def _run_delay(self) -> int:
        ran, stood, _ = map(int, os.pread(self._file, _LONG, 0).split())
        if (
            not ran
        ):  # this thread has already run, so 0 means that the system does not measure the time
            raise ValueError
        return stood


_SPARE_NS = 300_000  # spare time that suffices to add a buffer of frames to the statistics
CommandsInWait = Callable[[int], bool] | None
"""Function that executes commands during a wait for the tag at a time (ns). Returning True ends the
wait.
"""
_LONG_NS = 150_000_000  # during a wait of at least this length, commands are executed
_PIECE_NS = 50_000_000  # interval between two checks for commands
_COMPONENT_WARM_UP_NS = 40_000  # a warm-up of a component begins only if more time is left

DEFAULT_TOLERANCE_NS = 1_000_000


def tolerance_ns(period_ns: int, wall: Callable[[int], int], ns: int = 0) -> int:
    """Return the tolerance (wall-clock ns) of a loop from the simulated time ``ns`` on.

    ``period_ns`` is the shortest period in simulated ns, or 0. ``wall`` converts simulated ns to
    wall-clock ns.
    """
    if period_ns == 0:
        return DEFAULT_TOLERANCE_NS
    return (wall(ns + period_ns) - wall(ns)) // 10


class Pacer:
    """The pacing of one run. The pacer needs a few us for each frame.

    With a clock that does not wait, only computing times are measured.

    Args:
        clock: Clock of the run.
        policy: Overrun policy; ``CatchUp`` by default.
        frame_ns: Shortest period of the loop, simulated ns. For the limit of the policy, late tags
            within this time count as one late frame.
        tolerance_ns: Greatest lateness without an overrun, wall-clock ns. The default is a tenth of
            the period, as in ``rtsim doctor``. Without a period, the default is 1 ms.
        keep_worst: Number of worst frames to keep.
    """

    def __init__(
        self,
        clock: Clock,
        policy: Policy | None = None,
        *,
        frame_ns: int = 0,
        tolerance_ns: int | None = None,
        keep_worst: int = 10,
    ) -> None:
        if frame_ns < 0 or (tolerance_ns is not None and tolerance_ns < 0) or keep_worst < 0:
            raise ScenarioError(
                f"frame_ns={frame_ns}, tolerance_ns={tolerance_ns}, keep_worst={keep_worst}: a "
                "value is negative; give values >= 0"
            )
        self.clock = clock
        self.policy: Policy = CatchUp() if policy is None else policy
        self.frame_ns = frame_ns
        self._given_ns = tolerance_ns
        self._judge_at_rate(0)

        self.overrun: Overrun | None = None
        """The overrun at the tag of the latest call of :meth:`wait`; None if the tag was not late.
        """
        self.frozen = False
        self.reached_ns: int | None = None
        """Tag for which compiled code has already waited, ns, or None.

        If the frame is closed, the wake was late, and the policy has not been applied yet.
        """
        self.ledger = Ledger(self.policy, frame_ns)
        self.overruns, self.blamed = self.ledger.overruns, self.ledger.blamed
        self.slipped_ns = 0
        """Delay of the end of the run on the wall clock, ns.

        The delay is the sum of slips, freezes, and lateness beyond one frame at pauses and changes
        of rate.
        """
        self.holds, self.held_ns = 0, 0
        """Number of commanded pauses, and their total duration, wall-clock ns."""
        self.injected: dict[str, int] = {}
        """Wall-clock time that injected faults consumed, by name of the fault, ns."""
        self.margin_ns = 0
        self.log = FrameLog(keep_worst)
        if isinstance(clock, WallClock):
            clock.warm_up = self._warm_up
        self.warm_ups: list[Callable[[], object]] = []
        """Functions that execute a component's code for the next tag in advance, without effect.

        See ``warm_up`` in :mod:`rtsim.components.protocols`.
        """
        self.line: RunQueue | None = None
        """Measures how long the loop waits for a CPU; None for a run without a wall clock."""
        self._until: Callable[[int, Wake | None], bool] = clock.wait_until
        self.read = stopwatch if isinstance(clock, VirtualClock) else clock.now
        """Function that returns the wall-clock time in ns, from the run's clock if this is a wall
        clock.
        """
        self.frame = Frame()
        self._running = False
        self._frozen_ns = self._frozen_at = self._held_at = 0
        self._stands_ns = self._used_ns = 0
        self._held = False
        self._reset(0)

    def _reset(self, ns: int) -> None:
        self.frame.reset(ns, self.read())
        self.ledger.on_time()
        self.frozen, self.overrun = False, None

    def start(self, ns: int) -> None:
        """Start the pacing: the simulated time ``ns`` is due now.

        The pacer is started at the beginning of a run, and after a pause or a restore.
        """
        self.stop()
        if self.line is None and isinstance(self.clock, WallClock):
            self.line = RunQueue()
        self.clock.anchor(ns)
        self._judge_at_rate(ns)
        self._reset(ns)
        self._running = True

    def begin(self, ns: int) -> bool:
        """Wait for the first tag of a run, at ``ns``; return True to begin the tag.

        The clock can delay the first tag (see ``until_quiet``). As for :meth:`wait`, the result is
        False during a freeze, :attr:`overrun` is set if the loop wakes too late, and
        :class:`OverrunError` is raised if the limit of the policy is exceeded.
        """
        self.overrun = None
        if self.frozen:
            return self._hold(None)
        due, now = self.clock.wall(ns), self.read()
        if self.clock.paced and now < due:
            self._until(ns, None)
            return self._woken(ns, due)
        self.frame.begin(ns, now)
        return True

    def _judge_at_rate(self, ns: int) -> None:
        own = tolerance_ns(self.frame_ns, self.clock.wall, ns)
        self.tolerance_ns = own if self._given_ns is None else self._given_ns
        """Greatest lateness that is not an overrun, wall-clock ns."""

    def stop(self) -> None:
        """End the last frame, and complete the statistics."""
        if self._running:
            self._running = False
            frame = self.frame
            if not frame.closed:
                frame.note_compute(self.read())
                frame.close(self.log, NO_SAMPLE)
            self.log.add_wake(frame.woke_late)  # after an abort: a wake for a tag that never began
            frame.woke_late = NO_SAMPLE
            if self.line is not None:
                self.line.close()
                self.line = None
        self.log.count()

    def set_rate(self, rate: float | Fraction | None, ns: int) -> None:
        """Set the rate from the simulated time ``ns`` on. ``None`` means as fast as possible.

        If the tag at ``ns`` is more than one frame late, the lateness is reduced to one frame.
        """
        clock, now = self.clock, self.read()
        late = now - clock.wall(ns)  # negative before the first tag of a run is due
        # a run without a reference point gets one when the run resumes
        referred = clock.paced and not (self.frozen or self._held)
        clock.set_rate(rate, ns)
        self._judge_at_rate(ns)
        if clock.paced and referred:
            self._hand_on(ns, now, late)

    def _hand_on(self, ns: int, now: int, late: int) -> None:
        kept = min(late, self.clock.wall(ns + self.frame_ns) - self.clock.wall(ns))
        self.slipped_ns += late - kept
        self.frame.late_by_wake = min(self.frame.late_by_wake, kept)
        self.clock.anchor(ns, now - kept)

    def anchor(self, ns: int) -> None:
        """Make the simulated time ``ns`` due now, after a wait for an answer."""
        self.clock.anchor(ns, self.read())
        self.frame.late_by_wake = 0

    def hold(self, ns: int | None = None) -> None:
        """Pause simulated time by a command. Such a pause is not an overrun.

        Simulated time stops at the present tag, or at the time ``ns`` before the next tag.
        """
        self.stop()
        self._held, self._held_at = True, self.read()
        self._stands_ns = self.frame.tag_ns if ns is None else ns
        self._used_ns = self._held_at - self.clock.wall(self._stands_ns) if self.clock.paced else 0

    def end_hold(self, ns: int) -> int:
        """Continue after a pause, and return its duration (ns).

        The due times are later by the duration of the pause. A lateness at the beginning of the
        pause is reduced to at most one frame.
        """
        now = self.read()
        stood = now - self._held_at
        self._held = False
        self.holds += 1
        self.held_ns += stood
        self.start(ns)
        if self.clock.paced:
            self._hand_on(self._stands_ns, now, self._used_ns)
        return stood

    def resume(self) -> None:
        """End a freeze.

        The late tag is due now, and all later tags are delayed by the same time.
        """
        if self.frozen:
            now = self.read()
            self.frozen = False
            self.slipped_ns += now - self._frozen_at
            self.clock.anchor(self._frozen_ns, now)
            self.frame.late_by_wake, self.frame.culprit_ns = 0, -1

    def patience_left_ns(self) -> int:
        """Return the remaining time (ns) of a freeze; raise ``OverrunError`` at its end."""
        left = self._frozen_at + self.policy.patience_ns - self.read()
        if left <= 0:
            raise self._out_of_patience()
        return left

    def job(self, name: str, start_ns: int, end_ns: int) -> None:
        """Record that a job ran from ``start_ns`` to ``end_ns``, in ns of one clock."""
        jobs = self.frame.jobs
        jobs[name] = jobs.get(name, 0) + end_ns - start_ns

    def lap(self, name: str) -> None:
        """Count the time since the last call as time of the job ``name``."""
        self.frame.lap(name, self.read())

    def ready(self, ns: int) -> None:  # noqa: ARG002 - the tag whose work is done
        """End the work of the tag.

        The time until the next call of ``wait`` belongs to the job ``propagate``.
        """
        self.frame.lap_at = self.read()
        self.frame.next = True

    def wait(self, ns: int, wake: Wake | None = None, commands: CommandsInWait = None) -> bool:
        """Wait until the simulated time ``ns`` is due; return True to begin the tag.

        During a long wait, ``commands(ns)`` is called every 50 ms. If ``commands`` returns True,
        ``wait`` returns False. ``wait`` also returns False after an event of an event input, and
        during a freeze (``frozen``). During a freeze, each call waits again until ``resume``.
        Afterwards, ``overrun`` describes the overrun of the tag, or is ``None``. Raises
        :class:`OverrunError` if the limit of the policy is exceeded.
        """
        self.overrun = None
        if self.frozen:
            return self._hold(wake)
        if self.reached_ns == ns:
            self.reached_ns = None
            return not self.frame.closed or self._judge_wake(ns, self.frame.began_late)
        clock, frame = self.clock, self.frame
        arrived = self.read()
        frame.note_compute(arrived)
        if not clock.paced:  # no tag is late without pacing
            clock.wait_until(ns)
            frame.close(self.log, NO_SAMPLE)
            frame.begin(ns, arrived)
            return True

        due = clock.wall(ns)
        late = arrived - due
        self.margin_ns = self.tolerance_ns - late
        if late >= 0:  # nothing to wait for
            if wake is not None and wake.is_set():
                return self._look_again()
            return self._begin_late(ns, arrived, late)
        self.ledger.on_time()  # the loop is on time, even if the following wait ends late
        frame.culprit_ns, frame.stood = -1, None
        if late < -_SPARE_NS and self.log.buffered >= ENOUGH:
            self.log.count()
        frame.close(self.log, self.margin_ns)
        before = frame.tag_ns, frame.spent, frame.next
        frame.begin(ns, arrived)
        self._note_line()
        if (late > -_LONG_NS or self._listen(ns, due, commands)) and self._until(ns, wake):
            return self._woken(ns, due)
        frame.go_back(*before, self.log.reopen())
        return self._look_again()

    def _note_line(self) -> None:
        if self.line is not None:
            self.line.note()

    def _listen(self, ns: int, due: int, commands: CommandsInWait) -> bool:
        clock = self.clock
        while commands is not None and (rest := due - self.read()) > _LONG_NS:
            piece = min(_PIECE_NS, rest - _PIECE_NS)
            clock.wait_until(min(ns, clock.simulated(due - rest + piece) + 1))
            if commands(ns):
                return False
        self._note_line()
        return True

    def _woken(self, ns: int, due: int) -> bool:
        frame = self.frame
        frame.resumed = frame.lap_at = now = self.read()
        frame.woke_late = frame.began_late = frame.late_by_wake = late = now - due
        if late <= self.tolerance_ns:
            return True
        frame.closed = True
        frame.stood = None if self.line is None else self.line.stood_ns()
        return self._judge_wake(ns, late)

    def _judge_wake(self, ns: int, late: int) -> bool:
        if not self._apply(ns, late, "wake"):
            return self._look_again()
        self.frame.closed = False
        return True

    def _warm_up(self, left_ns: int) -> None:
        if self.warm_ups:
            self._warm_up_components(left_ns)
        frame = self.frame
        kept = frame.began_late, frame.late_by_wake, frame.woke_late
        self._woken(frame.tag_ns, 2**63)
        frame.began_late, frame.late_by_wake, frame.woke_late = kept

    def _warm_up_components(self, left_ns: int) -> None:
        until = self.read() + left_ns - _COMPONENT_WARM_UP_NS
        for warm_up in self.warm_ups:
            if self.read() >= until:
                break
            warm_up()

    def _begin_late(self, ns: int, now: int, late: int) -> bool:
        frame = self.frame
        by_wake = min(frame.late_by_wake, late)
        frame.close(self.log, self.margin_ns)
        frame.began_late, frame.late_by_wake = late, by_wake
        frame.accuse()
        if late <= self.tolerance_ns:
            self.ledger.on_time()
        elif not self._apply(ns, late, "wake" if 2 * by_wake > late else "compute"):
            return self._look_again()
        frame.begin(ns, now)
        return True

    def _look_again(self) -> bool:
        self.frame.resumed = self.frame.lap_at = self.read()
        return False

    # -- overruns

    def _apply(self, ns: int, late: int, cause: Cause) -> bool:
        job, stood = (self.frame.culprit, None) if cause == "compute" else ("", self.frame.stood)
        self.overrun = overrun = self.ledger.judge(ns, late, cause, job, stood)
        if overrun.action == "abort":
            raise self.ledger.limit(overrun)
        if overrun.action == "catch_up":
            return True
        now = self.clock.wall(ns) + late
        self.slipped_ns += late
        self.clock.anchor(ns, now)
        if overrun.action == "slip":
            # the tag is due now, so its lateness is 0
            self.frame.late_by_wake, self.frame.culprit_ns = 0, -1
            return True
        if overrun.action == "freeze":
            self.frozen, self._frozen_ns, self._frozen_at = True, ns, now
            return False
        assert_never(overrun.action)

    def _hold(self, wake: Wake | None) -> bool:
        over = self.read() + self.patience_left_ns()
        if self.clock.wait_until(self.clock.simulated(over), wake):
            raise self._out_of_patience()
        return self._look_again()

    def _out_of_patience(self) -> OverrunError:
        return OverrunError(
            f"an overrun froze the run at {self._frozen_ns / 1e9:.9f} s, and nobody resumed it "
            f"within {self.policy.patience_ns / 1e9:g} s; {advice(self.policy, 1)}"
        )

"""The compiled engine of one run.

Compiled code runs all tags in a stretch of simulated time. Compiled code stops before a tag that
only the interpreter (``rtsim.engine.executive.Executive``) can execute. Compiled code gives the
same results as the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.components.plant import RunningPlant
from rtsim.components.tasks import FAR, Task
from rtsim.core.clock import Clock, stopwatch
from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.engine.advance import Loop
from rtsim.engine.commands.commands import Inbox
from rtsim.engine.compiled.eligibility import COMPILED, examine, why_unpaceable
from rtsim.engine.compiled.kernel import stretch
from rtsim.engine.compiled.pace import AGAIN, HAND_OVER
from rtsim.engine.compiled.records import NOTHING
from rtsim.engine.compiled.table import Table
from rtsim.engine.compiled.transfer import call, copy_in, copy_out, give_up, note_rows, undo
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
from rtsim.equations.addresses import WORDS
from rtsim.equations.compiling import Native, compile_function, kept
from rtsim.record.track import BLOCK_BYTES
from rtsim.solve.internal_steps import nothing
from rtsim.timing.pacing import Pacer

_MOST_DRAWS = 512
"""Largest number of random draws per stream that are made in advance for one stretch."""
_CALL_NS = 20_000_000
"""Target duration of one call, ns.

The number of tags per call grows up to this duration. Ctrl-C is handled between two calls.
"""
_WORTH_IT = 8
"""Least length of a stretch, in steps of the fastest plant.

Shorter stretches are not worth a call.
"""


@cache
def _kernel() -> Native:
    return compile_function(stretch, (WORDS,), "the compiled engine")


def engine_kept() -> bool:
    """Return whether the compiled engine is in the cache; compiling it takes 10 s."""
    return kept(stretch, (WORDS,))


class CompiledEngine:
    """Compiled engine of one run.

    :attr:`why_not` contains the reasons why the run cannot use the compiled engine at all.
    :attr:`interpreted` lists the components that react in Python. Compiled code stops before each
    tag of these components.
    """

    def __init__(
        self,
        system: System,
        trace: Trace,
        pacer: Pacer,
        engine: str,
        until_ns: int,
        inbox: Inbox | None = None,
    ) -> None:
        """``engine`` is one of :data:`ENGINES`; the run ends at ``until_ns``."""
        self._system, self._trace, self._pacer = system, trace, pacer
        self._clock: Clock = pacer.clock
        self._inbox = inbox
        loaded = _kernel.cache_info().currsize > 0
        found = examine(system, trace, pacer, engine, until_ns, loaded)
        self.why_not, self.interpreted = found.why_not, found.interpreted
        self._reactions = found.reactions
        self.tags = 0
        """Number of tags that compiled code has run."""
        self._table: Table | None = None
        self._engine = engine
        self._bound: tuple[object, Callable[[], Any]] | None = None
        self._given_up_ns = -1
        """Time (ns) of the tag after which the interpreter must run the next tag."""

    def again(self, trace: Trace, pacer: Pacer) -> CompiledEngine:
        """Prepare for another run of the system after a reset."""
        self._trace, self._pacer, self._clock, self.tags = trace, pacer, pacer.clock, 0
        self._given_up_ns = -1
        if self._table is not None:
            self._table.record_in(trace)
        return self

    def whole(self) -> Table | None:
        """Return the table if one call of compiled code can execute a whole run, else ``None``.

        Compiled code can make a whole run if all tasks are compiled, the first calls of the tasks
        have been checked, and the vectors of the plants are their complete state.
        """
        if self._table is None or not self.usable or self.interpreted:
            return None
        if any(plant.outside for plant in self._system.plants):
            return None
        return self._table if all(map(_checked, self._system.tasks)) else None

    @property
    def kernel(self) -> Native:
        """Compiled kernel. Raises ``ModelError`` if the kernel cannot be compiled."""
        return _kernel()

    @property
    def usable(self) -> bool:
        return not self.why_not

    def __str__(self) -> str:
        """Return a line about the parts that ran in compiled code, and why others did not."""
        if not self.usable:
            return f"interpreted: {'; '.join(self.why_not)}"
        rest = f"; interpreted: {'; '.join(self.interpreted)}" if self.interpreted else ""
        return f"compiled: {self.tags} tags{rest}"

    def advance(self, loop: Loop) -> bool:
        """Run tags before ``loop.limit_ns()``, up to a tag that needs the interpreter.

        Return whether simulated time has advanced. ``loop.between`` is called at intervals and at
        the end. In real time, the intervals are 0.2 to 0.28 s.
        """
        if not self.usable or self._system.ns == self._given_up_ns:
            return False
        system = self._system
        if system.postponed:  # a change waits for the tag of its plant
            return False
        limit = min(loop.limit_ns(), self._first_interpreted())
        if limit - system.ns < _WORTH_IT * min(p.step.ns for p in system.plants):
            return False
        paced = self._clock.paced
        if self._table is not None and paced != (self._table.frames is not None):
            self._table = None  # a command changed the pace
        self.prepare()
        if self._table is None or (paced and why_unpaceable(system, self._pacer)):
            return False
        began = system.ns
        self._run(self._table, limit, loop)
        return system.ns > began

    def prepare(self) -> None:
        """Compile the engine and make its table, if necessary."""
        if self._table is None and self.usable and self._compiles():
            paced = self._pacer if self._clock.paced else None
            self._table = Table(self._system, self._trace, self._reactions, paced, self._inbox)

    def _compiles(self) -> bool:
        """Compile or load the kernel; return whether the engine can be used.

        Raises :class:`ModelError` if the compilation fails although the user requested the engine.
        """
        try:
            _kernel()
        except ModelError as error:
            if self._engine == COMPILED:
                raise
            self.why_not.append(str(error).partition("\n")[0].rstrip(":"))
        return self.usable

    def _first_interpreted(self) -> int:
        """Return the next time (ns) of an event that compiled code cannot handle."""
        system, native = self._system, self._reactions
        found = [FAR, *system.inserted[:1], *system.bus.arrivals_except(native.keys())]
        found.append(system.bus.next_transmission_ns)
        for task in system.tasks:
            if task.name not in native or not _checked(task):
                found.append(task.next_ns)
        for controller in system.controllers:
            if controller.name not in native or not controller.checked:
                found.append(controller.due_ns)
        if system.next_change < len(system.changes):
            found.append(system.changes[system.next_change].ns)
        return min(found)

    def _run(self, table: Table, limit_ns: int, loop: Loop) -> None:
        flight = self._system.bus.take(table.topic_numbers.keys())
        table.make_room(len(flight))
        copy_in(table, flight)
        self.draw_ahead(table, limit_ns)
        state, interrupted, failed = table.state, None, False
        table.header["limit"] = limit_ns
        try:
            while not failed:
                try:
                    self.tags += self._call(table, loop)
                except Exception:  # the interpreter runs the same tag and reports the error
                    failed = True
                if failed or not self._goes_on(table, loop):
                    break
        except KeyboardInterrupt as signal:
            interrupted = signal
        undone = bool(state["in_tag"])
        if undone:
            undo(table)
        table.settle_draws()
        copy_out(table, self._clock, undone)
        if failed or state["answer"] == HAND_OVER or (undone and not state["dry"]):
            self._given_up_ns = self._system.ns
        if interrupted is not None:
            raise interrupted
        loop.between(self._system.ns)

    def _call(self, table: Table, loop: Loop) -> int:
        if self._bound is None or self._bound[0] is not table.entry:
            kernel = _kernel().on(table.entry, concurrent=self._clock.paced)
            self._bound = (table.entry, kernel)
        began = stopwatch()
        tags = call(table, self._bound[1], loop.interrupt_check)
        if tags == table.header["most"] and 4 * (stopwatch() - began) < _CALL_NS:
            table.header["most"] *= 4
        return tags

    def _goes_on(self, table: Table, loop: Loop) -> bool:
        state, frames = table.state, table.frames
        full = state["rolled"] or state["answer"] == AGAIN
        if state["in_tag"] or not full:
            return False
        began = self._pacer.read()
        self._system.ns = int(state["now"])
        note_rows(table)
        if frames is not None:
            frames.take()
        stop = loop.between(self._system.ns)
        state["rolled"] = state["answer"] = 0
        if frames is not None:
            frames.again(began)
        return not stop

    def draw_ahead(self, table: Table, limit_ns: int) -> None:
        """Draw enough random numbers for the ticks before ``limit_ns``."""
        span = limit_ns - self._system.ns
        periods = {t.name: t.period for t in table.task_list}
        timers = {n: r.timers[0][0] for n, r in self._reactions.items() if r.timers}
        for i, ((what, name), draws) in enumerate(table.draw_list.items()):
            period = timers[name] if what == "timers" else periods[name]
            assert period is not None
            draws.fill(min(int(span // period.ns) + 2, _MOST_DRAWS))
            table.lend_draws(i, draws)


def _checked(task: Task) -> bool:
    """Return whether the first call of the task's compiled function has been checked."""
    checked: bool = getattr(task, "checked", True)
    return checked


# Whole runs in compiled code. A prepared run (rtsim.runs.prepared) whose tasks are all compiled
# does not use the objects of the system. The words and vectors of its initial state are restored,
# and the kernel is called until the run ends. If the kernel meets a tag that it cannot finish, the
# attempt ends, and the executive makes the run from its beginning.

Sink = Callable[[NDArray[np.int64]], object]
"""Receives rows (n, columns) of a track. The array is valid only during the call."""
_MOST_BYTES = 1 << 25
"""Memory for the blocks of all tracks, bytes. Larger blocks would exceed the CPU caches."""


class _Blocks:
    """Two blocks of memory for the rows of one track."""

    def __init__(self, width: int, tracks: int) -> None:
        self.width = width
        size = min(BLOCK_BYTES, _MOST_BYTES // (2 * tracks))
        self.capacity = max(16, min(4096, size // (8 * width)))
        self.blocks = [np.zeros((self.capacity, width), np.int64) for _ in range(2)]
        self.addresses = [block.ctypes.data for block in self.blocks]
        self.present = 0
        """Index of the block that the kernel fills."""


class WholeRun:
    """Many runs of one system, each in a single call of compiled code."""

    def __init__(self, engine: CompiledEngine, table: Table) -> None:
        self._engine, self._table, self._entry = engine, table, table.entry
        copy_in(table, ())
        table.state["now"] = NOTHING
        self._start = table.changing.copy()
        self._vectors = [(vector, vector.copy()) for vector in _changing(table)]
        tracks = table.track_list
        self._blocks = [_Blocks(t.spec.width, len(tracks)) for t in tracks]
        self._call = engine.kernel.on(self._entry)
        self._sinks: Sequence[Sink | None] = ()
        self.wall_ns = 0
        """Wall-clock time that the kernel used in the latest run, ns."""
        self.tags: int | None = 0
        """Number of tags of the run, or ``None`` if the interpreter must execute it."""
        self.going = False
        """True until the run has ended, or cannot go on."""
        self._until_ns = 0
        self._lent: tuple[bool, ...] = ()
        """Which tracks store rows, as set in the table."""

    @property
    def names(self) -> list[str]:
        """Names of the tracks, in the order of the argument ``sinks`` of :meth:`run`."""
        return [track.name for track in self._table.track_list]

    @property
    def plants(self) -> Sequence[RunningPlant]:
        return self._table.system.plants

    @property
    def entry(self) -> NDArray[np.int64]:
        """Array with the address of the table's header."""
        return self._entry

    @property
    def valid(self) -> bool:
        """True if the table still contains the arrays of this object."""
        return self._table.entry is self._entry

    @property
    def now_ns(self) -> int:
        """Time of the last tag that was run, ns."""
        return int(self._table.state["now"])

    def reset(self) -> None:
        """Restore the initial state and parameters. Write changed parameter values afterwards."""
        self._table.changing[:] = self._start
        give_up(self._table)
        for vector, first in self._vectors:
            vector[...] = first
        for blocks in self._blocks:
            blocks.present = 0

    def disturbed(self) -> None:
        """Note that another run has used the table."""
        self._lent = ()

    def run(self, until_ns: int, sinks: Sequence[Sink | None]) -> int | None:
        """Execute a run to ``until_ns`` (ns); return the number of tags.

        ``sinks`` receive the rows of the tracks. The rows of a track without a sink are discarded.
        Returns ``None`` if the interpreter must execute a tag.
        """
        self.begin(until_ns, sinks)
        while self.going:
            self.before_call()
            began = stopwatch()
            try:
                done = call(self._table, self._call, nothing)
            except KeyboardInterrupt:
                raise
            except Exception:
                self.end(None)  # the interpreter will raise the same error and report its place
                return None
            self.wall_ns += stopwatch() - began
            self.after_call(done)
        return self.tags

    # One run in parts: ``begin``, and ``before_call`` and ``after_call`` around each call

    def begin(self, until_ns: int, sinks: Sequence[Sink | None]) -> None:
        self._sinks = sinks
        lent = tuple(sink is not None for sink in sinks)
        if lent != self._lent:
            self._lend(lent)
        self.wall_ns, self._until_ns = 0, until_ns
        self.tags, self.going = 0, True
        header = self._table.header
        header["limit"], header["last"] = until_ns, 1
        self._table.system.next_change = 0
        self._table.fill_changes()

    def before_call(self, most: int | None = None) -> None:
        """Draw random numbers for a call, which runs at most ``most`` tags if given."""
        table = self._table
        if most is not None:
            table.header["most"] = most
        if table.draw_list:
            table.system.ns = max(0, self.now_ns)
            self._engine.draw_ahead(table, self._until_ns)

    def after_call(self, done: int) -> None:
        """Process the rows of a call that ran ``done`` tags, and note whether the run goes on."""
        table, state = self._table, self._table.state
        assert self.tags is not None
        self.tags += done
        unfinished, dry = state["in_tag"], state["dry"]
        if unfinished:
            undo(table)
            if not (dry and done):
                self.end(None)
                return
        table.settle_draws()
        if state["rolled"]:
            self._empty()
        elif state["now"] >= self._until_ns:
            self.end(self.tags)
        elif not done:
            self.end(None)

    def end(self, tags: int | None) -> None:
        """End the run; ``tags`` is ``None`` if the interpreter must execute it."""
        self.tags, self.going = tags, False
        self._table.header["last"] = 0
        self._table.header["changes"] = (0, 0)
        if tags is None:
            return
        states = self._table.track_states
        for state, blocks, sink in zip(states, self._blocks, self._sinks, strict=True):
            if sink is not None and (count := int(state["row"])):
                sink(blocks.blocks[blocks.present][:count])

    def _lend(self, kept: tuple[bool, ...]) -> None:
        """Make compiled code store rows for the tracks in ``kept`` only."""
        table = self._table
        for i, (blocks, keep) in enumerate(zip(self._blocks, kept, strict=True)):
            row, state = table.tracks[i], table.track_states[i]
            row["width"], row["capacity"] = blocks.width, blocks.capacity
            size = blocks.blocks[0].size if keep else 0
            state["block"], state["spare"] = ((a, size) for a in blocks.addresses)
            state["row"] = state["rolled"] = 0
        words = table.track_words
        self._start[words] = table.changing[words]
        self._lent = kept

    def _empty(self) -> None:
        """Pass full blocks of rows to the sinks of their tracks."""
        states = self._table.track_states
        for state, blocks, sink in zip(states, self._blocks, self._sinks, strict=True):
            if state["rolled"]:
                full = blocks.present
                if sink is not None:
                    sink(blocks.blocks[full])
                blocks.present = 1 - full
                state["spare"]["address"], state["rolled"] = blocks.addresses[full], 0
        self._table.state["rolled"] = 0


def _changing(table: Table) -> list[Vector]:
    system = table.system
    found = chain(
        table.span_list,
        (plant.p for plant in system.plants),
        (vector for initial in system.initials.values() for vector in initial.vectors),
        (one for port in system.ports.values() for one in (port.value, port.early)),
    )
    return list({(v.ctypes.data, v.size): v for v in found if v.size}.values())

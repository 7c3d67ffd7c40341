"""The compiled engine of one run: what it can run, and one stretch after the other.

A stretch is a span of simulated time in which everything that happens is compiled.  It ends before
the first tag at which anything else happens: that tag is the interpreter's
(:class:`rtsim.engine.executive.Executive`), which is the reference for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from rtsim.components.latency import remembers_nothing
from rtsim.components.ports import Wiring
from rtsim.components.tasks import FAR, CompiledReaction, Task
from rtsim.core.clock import Clock, stopwatch
from rtsim.core.errors import ModelError
from rtsim.core.tag import Period
from rtsim.engine.commands.commands import Inbox
from rtsim.engine.compiled import layout as at
from rtsim.engine.compiled.kernel import stretch
from rtsim.engine.compiled.pace import AGAIN, HAND_OVER
from rtsim.engine.compiled.paced_frames import unpaceable
from rtsim.engine.compiled.table import SENDERS, Table
from rtsim.engine.compiled.transfer import call, copy_in, copy_out, note_rows, undo
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
from rtsim.equations.addresses import WORDS
from rtsim.equations.compiling import Native, compile_function, kept
from rtsim.solve.internal_steps import nothing
from rtsim.timing.pacing import Pacer

AUTO, COMPILED, INTERPRETED = ENGINES = ("auto", "compiled", "interpreted")
"""The engines that can run a scenario.  Automatic uses the compiled engine if the engine is
compiled already or if the run is long.  The engine is compiled once on each machine, which takes
some seconds."""
_LONG = 100_000
"""Steps; the interpreter takes as long for them as compiling the engine."""
_SHORT = 200
"""Steps; the interpreter takes as long for them as loading the engine."""
EXACT_NS = 2**53
"""The latest time (ns) whose value in s is rounded equally in compiled code and in Python."""
_MOST_DRAWS = 512
"""Numbers that are drawn ahead for one stretch, for each stream."""
_CALL_NS = 20_000_000
"""The number of tags in one call grows until a call takes this long: Ctrl-C is handled after it."""
_WORTH_IT = 8
"""Steps of the fastest plant; a shorter stretch costs more than the interpreter takes."""


@cache
def _kernel() -> Native:
    return compile_function(stretch, (WORDS,), "the compiled engine")


class Stretches:
    """The compiled engine of one run.

    :attr:`why_not` says why the run cannot use the compiled engine at all.  :attr:`interpreted`
    names the components that react in Python; compiled code stops before each of their tags.
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
        """``engine`` is one of :data:`ENGINES`; ``until_ns`` [ns] is where the run ends."""
        self._system, self._trace, self._pacer = system, trace, pacer
        self._clock: Clock = pacer.clock
        self._inbox = inbox
        self.why_not: list[str] = []
        self.interpreted: list[str] = []
        self.tags = 0
        """Number of tags that ran in stretches."""
        self._reactions: dict[str, CompiledReaction] = {}
        self._table: Table | None = None
        self._engine = engine
        self._bound: tuple[object, Callable[[], Any]] | None = None
        self._interrupt_check: Callable[[], object] = nothing
        self._given_up_ns = -1
        """The next tag after the one at this time is the interpreter's, ns."""
        if engine == INTERPRETED:
            self.why_not.append("the interpreter was asked for")
            return
        self._survey(until_ns)
        if self.usable and engine == AUTO:
            self._judge(until_ns)

    def again(self, trace: Trace, pacer: Pacer) -> Stretches:
        """Prepare for another run of the same system, which has been reset."""
        self._trace, self._pacer, self._clock, self.tags = trace, pacer, pacer.clock, 0
        self._given_up_ns = -1
        if self._table is not None:
            self._table.record_in(trace)
        return self

    def whole(self) -> Table | None:
        """Return the table if compiled code can run a whole run in one call, else ``None``.

        The conditions: all tasks are compiled, their first calls were checked, and no change is
        scheduled.
        """
        if self._table is None or not self.usable or self.interpreted or self._system.changes:
            return None
        return self._table if all(map(_checked, self._system.tasks)) else None

    @property
    def kernel(self) -> Native:
        """The compiled engine itself; raises :class:`ModelError` if it does not compile."""
        return _kernel()

    @property
    def usable(self) -> bool:
        return not self.why_not

    def __str__(self) -> str:
        """One line for a person: what ran where, and why."""
        if not self.usable:
            return f"interpreted: {'; '.join(self.why_not)}"
        rest = f"; interpreted: {'; '.join(self.interpreted)}" if self.interpreted else ""
        return f"compiled: {self.tags} tags{rest}"

    def _judge(self, until_ns: int) -> None:
        """Leave a short run to the interpreter."""
        steps = (until_ns - self._system.ns) / min(p.step.ns for p in self._system.plants)
        if steps < _SHORT:
            self.why_not.append("the run is short")
        elif steps < _LONG and not (_kernel.cache_info().currsize or kept(stretch, (WORDS,))):
            self.why_not.append(
                "the run is short, and the engine was not compiled on this machine yet "
                "(--engine compiled compiles it)"
            )

    def _survey(self, until_ns: int) -> None:
        """Find the tasks that run in compiled code, and what forbids it for the whole run."""
        system = self._system
        if not system.plants:
            self.why_not.append("the scenario has no plant")
        for plant in system.plants:
            if plant.native_step() is None:
                self.why_not.append(f"the solver or the model of {plant.name} is not compiled")
        if system.plants and self._clock.paced:
            why = self._unpaceable()
            self.why_not += [why] if why else []
        if until_ns >= EXACT_NS:
            self.why_not.append("the run ends after 104 days")
        if system.faults is not None:
            self.why_not.append("faults are declared")
        if system.external_inputs:
            self.why_not.append("external inputs are read at each tag")
        for task in system.tasks:
            found = _compiled(task)
            if isinstance(found, CompiledReaction):
                found = self._fit(task, found)
            if isinstance(found, CompiledReaction):
                self._reactions[task.name] = found
            else:
                self.interpreted.append(found)

    def _unpaceable(self) -> str:
        """Return why compiled code cannot wait at the present rate; empty if it can."""
        return unpaceable(self._pacer, round(min(p.step.ns for p in self._system.plants)))

    def _fit(self, task: Task, found: CompiledReaction) -> CompiledReaction | str:
        system = self._system
        periods = [p for p, _ in found.timers if p is not None] if found.timers else [task.period]
        if not all(p is not None and _exact(p) for p in periods):
            return f"{task.name} has no period, or too long a one"
        if found.wiring is not None and type(found.wiring) is not Wiring:
            return f"the inputs of {task.name} are changed on their way"
        if found.kind in SENDERS:
            topic = system.bus.topics[task.name]
            if system.bus.on_medium(task.name):
                return f"messages of {task.name} wait for a medium"
            if self._trace.tally is not None and not self._trace.topic_track(task.name).keeps:
                return f"clients see the latencies of {task.name}, and no row of it is kept"
            for model in (topic.transport, found.compute):
                if not remembers_nothing(model):
                    return f"the latency model {type(model).__name__} of {task.name} has a state"
            if system.triggers.get(task.name) or system.listeners.get(task.name):
                return f"messages of {task.name} trigger other components"
        return found

    def run(
        self,
        limit_ns: int,
        between: Callable[[int], bool],
        interrupt_check: Callable[[], object] = nothing,
    ) -> bool:
        """Run the tags before ``limit_ns`` up to the first tag that the interpreter must run.

        ``between`` is called with the time of the last tag (ns): every 0.2 to 0.28 s in a paced
        run, now and then in other runs, and once at the end.  If ``between`` returns True, the run
        stops.  ``interrupt_check`` is called in each pause of a long step.  Returns False
        if no tag was run.
        """
        self._interrupt_check = interrupt_check
        if not self.usable or self._system.ns == self._given_up_ns:
            return False
        system = self._system
        if system.postponed:  # a change waits for the tag of its plant
            return False
        limit = min(limit_ns, self._first_interpreted())
        if limit - system.ns < _WORTH_IT * min(p.step.ns for p in system.plants):
            return False
        paced = self._clock.paced
        if self._table is not None and paced != (self._table.frames is not None):
            self._table = None  # a command changed the pace
        self.prepare()
        if self._table is None or (paced and self._unpaceable()):
            return False
        began = system.ns
        self._run(self._table, limit, between)
        return system.ns > began

    def prepare(self) -> None:
        """Compile the engine and make its table, before the first tag if the run surely uses it."""
        if self._table is None and self.usable and self._compiles():
            paced = self._pacer if self._clock.paced else None
            self._table = Table(self._system, self._trace, self._reactions, paced, self._inbox)

    def _compiles(self) -> bool:
        """Compile or load the kernel; raises :class:`ModelError` if it was asked for and fails."""
        try:
            _kernel()
        except ModelError as error:
            if self._engine == COMPILED:
                raise
            self.why_not.append(str(error).partition("\n")[0].rstrip(":"))
        return self.usable

    def _first_interpreted(self) -> int:
        """The first time [ns] at which something happens that is not compiled."""
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

    def _run(self, table: Table, limit_ns: int, between: Callable[[int], bool]) -> None:
        flight = self._system.bus.take(set(table.topics))
        table.make_room(len(flight))
        copy_in(table, flight)
        self.draw_ahead(table, limit_ns)
        w, interrupted, failed = table.w, None, False
        w[at.LIMIT] = limit_ns
        try:
            while not failed:
                try:
                    self.tags += self._call(table)
                except Exception:  # the interpreter runs the same tag, and says what is wrong
                    failed = True
                if failed or not self._goes_on(table, between):
                    break
        except KeyboardInterrupt as signal:
            interrupted = signal
        undone = bool(w[table.changing + at.IN_TAG])
        if undone:
            undo(table)
        for row, draws in zip(table.draw_rows, table.draws.values(), strict=True):
            draws.settle(int(w[row.state + at.C_NEXT]))
        copy_out(table, self._clock, undone)
        handed_over = w[table.changing + at.ANSWER] == HAND_OVER
        if failed or handed_over or (undone and not w[table.changing + at.DRY]):
            self._given_up_ns = self._system.ns
        if interrupted is not None:
            raise interrupted
        between(self._system.ns)

    def _call(self, table: Table) -> int:
        """Run tags; returns their number."""
        if self._bound is None or self._bound[0] is not table.w:
            kernel = _kernel().on(table.w, concurrent=self._clock.paced)
            self._bound = (table.w, kernel)
        began = stopwatch()
        tags = call(table, self._bound[1], self._interrupt_check)
        if tags == table.w[at.MOST] and 4 * (stopwatch() - began) < _CALL_NS:
            table.w[at.MOST] *= 4
        return tags

    def _goes_on(self, table: Table, between: Callable[[int], bool]) -> bool:
        """After a call that ended early: whether the stretch continues with another one."""
        w, frames = table.w, table.frames
        changing = w[table.changing : table.changing + at.HEADER_STATE]
        full = changing[at.ROLLED] or changing[at.ANSWER] == AGAIN
        if changing[at.IN_TAG] or not full:
            return False
        began = self._pacer.read()
        self._system.ns = int(changing[at.NOW])
        note_rows(table)
        if frames is not None:
            frames.take()
        stop = between(self._system.ns)
        changing[at.ROLLED] = changing[at.ANSWER] = 0
        if frames is not None:
            frames.again(began)
        return not stop

    def draw_ahead(self, table: Table, limit_ns: int) -> None:
        """Draw as many random numbers as the ticks before ``limit_ns`` can use."""
        w, span = table.w, limit_ns - self._system.ns
        periods = {t.name: t.period for t in table.tasks}
        timers = {n: r.timers[0][0] for n, r in self._reactions.items() if r.timers}
        for row, ((what, name), draws) in zip(table.draw_rows, table.draws.items(), strict=True):
            period = timers[name] if what == "timers" else periods[name]
            assert period is not None
            draws.fill(min(int(span // period.ns) + 2, _MOST_DRAWS))
            w[row.at + at.D_STATE], w[row.at + at.D_WIDTH] = row.state, draws.width
            w[row.state + at.C_NEXT] = 0
            w[row.at + at.D_VALUES] = draws.values.ctypes.data
            w[row.at + at.D_VALUES_LENGTH] = draws.values.size


def _compiled(task: Task) -> CompiledReaction | str:
    """The compiled reaction of ``task``, or why it has none."""
    reaction, described = _owner(task, "react"), _owner(task, "compiled")
    if described is None or reaction is not described:  # a subclass reacts in its own way
        return f"{task.name} reacts in Python"
    found: CompiledReaction | str = task.compiled()  # type: ignore[attr-defined]
    return found


def _owner(task: Task, method: str) -> type | None:
    """The class that defines ``method``."""
    return next((c for c in type(task).__mro__ if method in vars(c)), None)


def _checked(task: Task) -> bool:
    """The first call of the compiled function was checked: it was the interpreter's."""
    checked: bool = getattr(task, "checked", True)
    return checked


def _exact(period: Period) -> bool:
    """Its ticks can be computed in 64 bits."""
    return max(period.ratio) < 2**40

"""A plant in a run: its state, the times of its steps, and its provisional step."""

from __future__ import annotations

from collections.abc import Callable, Container, Set
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from rtsim.components.ports import SignalPort, Wiring
from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.raised import attribute_to
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Period, Tag
from rtsim.equations.addresses import AddressBlock
from rtsim.equations.calls import evaluation_block, resident
from rtsim.equations.constraints import trouble_in_step
from rtsim.equations.model import BoundModel
from rtsim.solve.base import GOOD, HISTORY_FULL, NO_NUMBER, Solver
from rtsim.solve.guard_watch import GuardWatch
from rtsim.solve.resident import NativeStep

NONE_NS = -1
_MOST_AT_ONCE = 64
"""Limit of steps per call of a solver, because interrupts wait for the end of the call."""


class TooSlow(Exception):
    """Steps in plain Python are so slow that the run should continue in machine code."""


class RunningPlant:
    """One plant of a run.

    ``values`` is one vector, ``[x, z, u, y]``, so that one copy records all parts.  ``x``, ``z``,
    ``u`` and ``y`` are views of it.  ``target_ns`` is the end of the provisional step.
    """

    outside = False
    """True if a part of the state is outside of the vectors of the plant."""
    ended = ""
    """Why the plant has ended its simulation; empty if it has not."""

    def __init__(
        self,
        name: str,
        bound: BoundModel,
        solver: Solver,
        step: Period,
        vectors: tuple[Vector, Vector, Vector, Vector],
        wiring: Wiring | None = None,
    ) -> None:
        model = bound.model
        self.name = name
        self.bound = bound
        self.solver = solver
        self.stepper = solver.stepper(bound)
        self._interrupt_check: Callable[[], object] | None = None
        if bound.history is not None and not bound.history.attached:
            raise ScenarioError(
                f"plant {name}: solver {solver.name} cannot integrate model {model.name}, which "
                "has delays; use dp54, bs32, or a solver with a fixed step such as rk4. (In a "
                "diagram, TransportDelay(..., samples=20) works with every solver)"
            )
        self.step = step
        self.signals: Signals = model.states + model.discrete + model.inputs + model.outputs
        self.values = np.zeros(self.signals.size)
        sizes = (model.states.size, model.discrete.size, model.inputs.size, model.outputs.size)
        self.x, self.z, self.u, self.y = np.split(self.values, np.cumsum(sizes)[:-1])
        x, z, u, p = vectors
        self.p = p if bound.history is None else bound.history.parameters(p)
        """Parameters; a model with delays has one more element, which identifies its history."""
        self.x[:], self.z[:], self.u[:] = x, z, u
        self.port = SignalPort(name, self.signals, self.values)
        self.wiring = wiring
        self.ns = 0
        self.target_ns = NONE_NS
        self._k = 1
        self._grid_ns = step.tick(1)
        self.next_x = np.zeros(sizes[0])
        self.reads_plants = False
        """True if the plant reads another plant and therefore samples its inputs at each tag."""
        self.stale = True
        """True if a port that the plant reads has changed since the last :meth:`read_wires`."""
        self.unsettled = False
        """True after :meth:`read_wires`, until :meth:`settle` copies the values to the inputs."""
        self.touched = False
        """True if x or z was written in this microstep."""
        self.sources: Set[str] = set()
        """Names of the ports that the plant's inputs read."""
        self.budgeted = getattr(self.stepper, "unbounded", None) is not None
        """True if the solver has a budget; steps beyond the budget are recorded."""
        self.paced = False
        """True in a run in real time."""
        self.watch: GuardWatch | None = None
        self.sampled = self.y
        """Vector that the output function fills: outputs, or otherwise algebraic values."""
        self._guess = np.zeros(0)
        """Values at which the first search for the algebraic values begins."""
        if model.origin is not None:
            self._guess = self.z[model.origin.discrete.size :].copy()
            self.sampled = self.y if self.y.size else self.z[model.origin.discrete.size :]
        self._bind_functions()
        self.sample()

    def _bind_functions(self) -> None:
        vectors, bound = (self.x, self.z, self.u, self.p), self.bound
        self._new_frame = getattr(self.stepper, "new_frame", None) if self.budgeted else None
        if bound.model.guards:
            self.watch = GuardWatch(self.name, bound, self.stepper, vectors, self.next_x)
        self._evaluate_output = resident(bound.output, *vectors, self.sampled)

    def to_machine_code(self) -> None:
        """Continue in machine code instead of plain Python, with exactly the same results.

        A provisional step is discarded.
        """
        if not self.bound.later:
            return
        self.discard()
        before, watch = self.stepper.save(), self.watch
        self.bound = self.bound.in_machine_code()
        self.stepper = self.solver.stepper(self.bound)
        self.stepper.restore(before)
        self._bind_functions()
        if watch is not None and self.watch is not None:
            self.watch.continue_from(watch)
        if self._interrupt_check is not None:
            self.begin_run(self._interrupt_check, self.paced)

    def reads(self, ports: Set[str], plants: Container[str]) -> None:
        self.sources = ports
        self.reads_plants = any(name in plants for name in ports)

    @property
    def behind(self) -> bool:
        """True if a connected signal has changed since the plant read its inputs."""
        return self.stale and bool(self.sources)

    @property
    def next_tag_ns(self) -> int:
        """Latest time of the plant's next tag, ns."""
        return self._grid_ns if self.target_ns == NONE_NS else self.target_ns

    def propagate(self, limit_ns: int) -> None:
        """Take a provisional step to the next grid point, ``limit_ns`` or the next event."""
        target = self._grid_ns if self._grid_ns < limit_ns else limit_ns
        try:
            bad, reached = self._advance(target)
            while bad == HISTORY_FULL and self.bound.history is not None:
                self.bound.history.grow()
                bad, reached = self._advance(target)
        except TooSlow:
            raise
        except BaseException as error:
            self._raise_attributed(error)
        if bad != GOOD:
            self._complain(bad, target)
        self.target_ns = reached

    def _advance(self, target: int) -> tuple[int, int]:
        if self.watch is not None:
            return self.watch.advance(self.ns, target)
        vectors = (self.x, self.z, self.u, self.p, self.next_x)
        return self.stepper.advance(self.ns, target, *vectors), target

    def _raise_attributed(self, error: BaseException) -> NoReturn:
        attribute_to(f"{self.name} (model {self.bound.model.name})", Tag(self.ns), error)

    def _complain(self, bad: int, target: int) -> NoReturn:
        if self.bound.history is not None and (fault := self.bound.history.fault()):
            raise ModelError(f"{self.name}, between {Tag(self.ns)} and {Tag(target)}: {fault}")
        if bad == NO_NUMBER and self.watch is not None:
            raise self.watch.no_number(f"between {Tag(self.ns)} and {Tag(target)}")
        if bad >= 0:
            self._refuse(self.ns, target, f"between {Tag(self.ns)} and {Tag(target)}")
        vectors = (self.x, self.z, self.u, self.p, self.next_x)
        ends = self.ns, target
        from rtsim.solve.failures import why_it_failed  # needed only after a failure

        raise why_it_failed(
            self.name, self.bound, self.solver, self.stepper, vectors, ends, self.step, bad
        )

    def begin_run(self, interrupt_check: Callable[[], object], paced: bool = False) -> None:
        """Begin a run; the solver calls ``interrupt_check`` during long steps.

        In real time (``paced``), the next step is computed between two tags.
        """
        self.paced = paced
        self.give_up()
        self._interrupt_check = interrupt_check
        if hasattr(self.stepper, "interrupt_check"):
            self.stepper.interrupt_check = interrupt_check

    def give_up(self) -> None:
        """Abandon a paused provisional step."""
        give_up = getattr(self.stepper, "give_up", None)
        if give_up is not None:
            give_up()

    def _refuse(self, from_ns: int, to_ns: int, when: str) -> None:
        model, times = self.bound.model, (from_ns / NS_PER_S, to_ns / NS_PER_S)
        said = trouble_in_step(model, times, self.x, self.z, self.u, self.p)
        if said:
            raise ModelError(
                f"the equations of {self.name} (model {model.name}) have no solution {when}: {said}"
            )

    def unsolve(self) -> None:
        """Restore the first guess of the algebraic variables."""
        if self._guess.size:
            self.z[-self._guess.size :] = self._guess

    def take_steps(self, limit_ns: int) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Take and commit several steps before ``limit_ns``.

        No other event may lie between these steps. Results equal those of single steps.

        Returns the times (k,), ns, and ``values`` at each time (k, n). Returns None if the solver
        cannot take several steps.
        """
        run = getattr(self.stepper, "run", None)
        if (
            run is None
            or self.budgeted
            or self.target_ns != NONE_NS
            or self.step.tick(self._k + 1) >= limit_ns
        ):
            return None
        times = [self.ns, *self.step.ticks_before(limit_ns, self._k, _MOST_AT_ONCE)]
        self._k += len(times) - 1
        self._grid_ns = self.step.tick(self._k)
        before = self.values.copy()
        at, ahead = np.array(times), 0
        try:
            if self.watch is None:
                vectors = (self.x, self.z, self.u, self.p, self.next_x)
                rows = run(at, vectors, self.sampled, self.values)
            else:
                rows, ahead = self.watch.run(at, self.sampled, self.values)
        except BaseException as error:
            self._raise_attributed(error)
        good = len(rows)
        if good < len(times) - 1:  # the next single step raises the error
            self.values[:] = rows[-1] if good else before
            self._k -= len(times) - 1 - good
            self._grid_ns = self.step.tick(self._k)
        self.ns = times[good]
        if ahead:
            self.target_ns = self.ns + ahead
        return at[1 : good + 1], rows

    def native_step(self) -> NativeStep | None:
        """Return the solver's step for compiled code, or None."""
        native = getattr(self.stepper, "native", None)
        if native is None or self.budgeted:
            return None
        if self.watch is not None and self.watch.native() is None:
            return None
        found: NativeStep = native(self.x, self.z, self.u, self.p, self.next_x)
        return found

    def native_output(self) -> AddressBlock | None:
        """Return the compiled output function with its vectors, or None."""
        if not self.sampled.size:
            return None
        return evaluation_block(self.bound.output, self.x, self.z, self.u, self.p, self.sampled)

    @property
    def position(self) -> tuple[int, int]:
        """The present time (ns), and the index of the next grid point."""
        return self.ns, self._k

    def adopt_compiled_state(self, ns: int, k: int) -> None:
        """Set the time to ``ns`` after steps in compiled code.

        After the compiled steps, the plant's :attr:`position` is ``(ns, k)``.
        """
        moved = ns != self.ns
        self.ns, self._k = ns, k
        self._grid_ns = self.step.tick(k)
        self.target_ns = NONE_NS
        if self.watch is not None and moved:
            self.watch.adopt_compiled_state()

    @property
    def fires(self) -> bool:
        """True if a guard has fired at the present time, before its reset."""
        return self.watch is not None and bool(self.watch.fired)

    def discard(self) -> None:
        self.target_ns = NONE_NS
        if self.watch is not None:
            self.watch.fired = ()

    def commit(self) -> int:
        """Commit the provisional step, and compute the outputs.

        Returns the number of solver steps without an error bound.
        """
        before = self._unbounded() if self.budgeted else 0
        self.ns = self.target_ns
        self.target_ns = NONE_NS
        self.x[:] = self.next_x
        self.stepper.accept()
        if self.watch is not None:
            self.watch.commit()
        if self.ns == self._grid_ns:
            self._k += 1
            self._grid_ns = self.step.tick(self._k)
            if self._new_frame is not None:
                self._new_frame()
        self.sample()
        return self._unbounded() - before if self.budgeted else 0

    def _unbounded(self) -> int:
        return getattr(self.stepper, "unbounded", None) or 0

    def sample(self) -> None:
        """Compute outputs and algebraic variables for the present state and inputs."""
        if not self.sampled.size:
            return
        try:
            bad = self._evaluate_output(self.ns / NS_PER_S)
        except BaseException as error:
            self._raise_attributed(error)
        if bad >= 0:
            model = self.bound.model
            self._refuse(self.ns, self.ns, f"at {Tag(self.ns)}")
            raise ModelError(
                f"output {model.outputs.columns[bad]} of {self.name} (model {model.name}) is "
                f"{self.y[bad]} at {Tag(self.ns)}; correct the output function, or keep the "
                "state and the inputs within the limits of the model"
            )

    def changed(self) -> None:
        """Inform the solver of a change of x, z, u or p, and compute the outputs."""
        self.stepper.forget()
        if self.watch is not None:
            try:
                self.watch.changed(self.ns)
            except BaseException as error:
                self._raise_attributed(error)
        self.sample()

    def read_wires(self) -> None:
        """Read the connected signals; ``settle`` copies them to the inputs."""
        if self.wiring is not None and (self.stale or self.reads_plants):
            self.stale = False
            self.unsettled = True
            self.wiring.gather()

    def settle(self) -> bool:
        """Apply the changes of a microstep; return whether values of the plant may have changed."""
        written, self.touched = self.touched, False
        self.unsettled = False
        if self.wiring is not None and self.wiring.into.tobytes() != self.u.tobytes():
            self.u[:] = self.wiring.into
            written = True
        if written:
            self.changed()
        return written

    def save(self) -> dict[str, Any]:
        """Return the committed state as plain data."""
        return {
            "ns": self.ns,
            "k": self._k,
            "values": self.values.tolist(),
            "p": self.p[: self.bound.model.parameters.size].tolist(),
            "wires": None if self.wiring is None else self.wiring.into.tolist(),
            "stale": self.stale,
            "solver": self.stepper.save(),
            **({} if self.watch is None else {"guards": self.watch.save()}),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        self.ns, self._k = saved["ns"], saved["k"]
        self._grid_ns = self.step.tick(self._k)
        self.values[:] = saved["values"]
        self.next_x[:] = self.x
        self.p[: self.bound.model.parameters.size] = saved["p"]
        if self.wiring is not None:
            self.wiring.into[:] = saved["wires"]
        self.stale, self.touched, self.unsettled = saved["stale"], False, False
        self.stepper.restore(saved["solver"])
        if self.watch is not None:
            self.watch.restore(saved["guards"], self.ns)
        self.target_ns = NONE_NS

    @property
    def unsaved(self) -> str:
        """Why the state cannot be saved; empty if it can."""
        return ""

    def close(self) -> None:
        """Free resources outside this process after the run."""

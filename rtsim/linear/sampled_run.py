"""Simulate linear components over one common period, with matrices instead of numbers.

As in docs/semantics.md, messages arrive, tasks react, changes take effect, and plants read their
inputs. Each value is a matrix. A matrix expresses values as linear functions of the state at the
start of the period and of the inputs. Between events, a plant with constant inputs moves by its
exact transition matrix.

Source: K. J. Astrom, B. Wittenmark, Computer-Controlled Systems (1997), sections 2.3 and 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from rtsim.core.errors import ModelError
from rtsim.core.tag import NS_PER_S, Period
from rtsim.linear.plants import Changer, LinearPlant, LinearTask, Link, Network, Rows, Sender
from rtsim.linear.state_space import Matrix, held

Time = Fraction
MOST_INSTANTS = 20_000


@dataclass(frozen=True)
class Cut:
    """A change of a signal between its sender and its receivers.

    The elements ``rows`` of ``port`` are multiplied by ``gain`` and delayed by ``delay_ns``. With
    ``open``, inputs of the open loop replace the signal.
    """

    port: str
    rows: tuple[int, ...]
    open: bool = False
    gain: float = 1.0
    delay_ns: Fraction = Fraction(0)


@dataclass
class Transit:
    """A message in transit, whose ``payload`` will replace the elements ``rows`` of ``port``."""

    arrival: tuple[Time, int]
    port: str
    rows: Rows
    payload: Matrix
    triggers: frozenset[str] = frozenset()


@dataclass
class PlantValues:
    """The values of a plant as matrices. Other components read the matrix ``committed``."""

    plant: LinearPlant
    x: Matrix
    z: Matrix
    u: Matrix
    committed: Matrix
    next_step: int = 1

    def commit(self) -> None:
        values = np.vstack((self.x, self.z, self.u))
        self.committed = np.vstack((values, self.plant.slopes.output @ values))


@dataclass
class SampledRun:
    """A simulation whose values are matrices with a number of columns."""

    network: Network
    cut: Cut | None
    columns: int = 0
    now: Time = Fraction(0)
    channel: Matrix | None = None
    """Inputs (elements, columns) that replace the cut signal. Each reading has a block of rows."""
    taken: list[Matrix] = field(default_factory=list)
    """Values of the cut signal, one for each reading."""
    uses: dict[Time, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plants = {p.name: self._plant_values(p) for p in self.network.plants}
        self.ports = {name: self._zeros(s.size) for name, s in self.network.ports.items()}
        self.early = {name: matrix.copy() for name, matrix in self.ports.items()}
        self.memory = {
            t.name: self._zeros(t.memory.size) for t in self.network.tasks if isinstance(t, Sender)
        }
        self.ticks = {t.name: 0 for t in self.network.tasks}
        self.busy: dict[str, Time] = {}
        self.transits: list[Transit] = []
        self._moves: dict[tuple[str, Time], Matrix] = {}

    def _plant_values(self, plant: LinearPlant) -> PlantValues:
        n, d, m, r = plant.sizes
        return PlantValues(
            plant, self._zeros(n), self._zeros(d), self._zeros(m), self._zeros(n + d + m + r)
        )

    def _zeros(self, rows: int) -> Matrix:
        return np.zeros((rows, self.columns))

    # -- time ----------------------------------------------------------------------------------

    def run(self, until: Time) -> None:
        """Process all events before the time ``until``, and advance the plants to ``until``."""
        for _ in range(MOST_INSTANTS):
            at = self._next()
            if at >= until:
                self._move(until)
                return
            self._move(at)
            self._instant(at)
        raise ModelError(
            "the common multiple of the scenario's periods "
            f"({', '.join(map(str, sorted(set(self.network.times), key=lambda p: p.ns)))}) has "
            f"more than {MOST_INSTANTS} instants; choose periods that are multiples of each other"
        )

    def _next(self) -> Time:
        ticks = [t for task in self.network.tasks if (t := self._tick(task)) is not None]
        steps = [v.next_step * v.plant.step.ns for v in self.plants.values() if v.plant.coupled]
        return min([*ticks, *steps, *(m.arrival[0] for m in self.transits)])

    def _tick(self, task: LinearTask) -> Time | None:
        if task.period is None:
            return None
        return task.offset_ns + self.ticks[task.name] * task.period.ns

    def _move(self, until: Time) -> None:
        seconds = until - self.now
        if seconds > 0:
            for values in self.plants.values():
                n = values.plant.sizes[0]
                key = (values.plant.name, seconds)
                if key not in self._moves:
                    rate = values.plant.slopes.rate
                    moved = held(rate[:, :n], rate[:, n:], float(seconds / NS_PER_S))
                    self._moves[key] = np.hstack(moved)
                values.x = self._moves[key] @ np.vstack((values.x, values.z, values.u))
        self.now = until

    # -- one instant ---------------------------------------------------------------------------

    def _instant(self, at: Time) -> None:
        ticking = [t for t in self.network.tasks if self._tick(t) == at]
        for task in ticking:
            self.ticks[task.name] += 1
        discrete = bool(ticking) or any(m.arrival[0] == at for m in self.transits)
        here = []
        for values in self.plants.values():
            on_grid = values.plant.coupled and values.next_step * values.plant.step.ns == at
            if on_grid:
                values.next_step += 1
            if on_grid or discrete:
                values.commit()
                here.append(values)
        step, triggered = 0, frozenset[str]()
        later: set[str] = set()
        while True:
            triggered |= self._deliver(at, step)
            later = set()
            writes = self._react(at, step, ticking if step == 0 else [], triggered, later)
            for port, rows, payload in writes:
                self.ports[port][rows] = payload
                self.early[port][rows] = payload
            inputs = [self._gathered(v.plant.links, v.u, at) for v in here]
            for values, u in zip(here, inputs, strict=True):
                values.u = u
            for values in here:
                values.commit()
            triggered = frozenset(later)
            if not triggered and not any(m.arrival[0] == at for m in self.transits):
                return
            step += 1

    def _deliver(self, at: Time, step: int) -> frozenset[str]:
        due = [m for m in self.transits if m.arrival <= (at, step)]
        self.transits = [m for m in self.transits if m.arrival > (at, step)]
        found: frozenset[str] = frozenset()
        for message in sorted(due, key=lambda m: m.arrival):
            self.ports[message.port][message.rows] = message.payload
            self.early[message.port][message.rows] = message.payload
            found |= message.triggers
        return found

    def _react(
        self, at: Time, step: int, ticking: list[LinearTask], triggered: frozenset[str],
        later: set[str],
    ) -> list[tuple[str, Rows, Matrix]]:  # fmt: skip
        writes: list[tuple[str, Rows, Matrix]] = []
        changed: list[tuple[PlantValues, Matrix]] = []
        now = set(triggered)
        for task in self.network.tasks:
            if task not in ticking and task.name not in now:
                continue
            if isinstance(task, Sender):
                self._send(task, at, step, writes, now, later)
            elif isinstance(task, Changer):
                values = self.plants[task.plant]
                u = self._gathered(values.plant.links, values.u, at)
                changed.append((values, task.matrix @ np.vstack((values.x, values.z, u))))
        for values, new in changed:
            n = values.plant.sizes[0]
            values.x, values.z = new[:n], new[n:]
        return writes

    def _send(
        self, task: Sender, at: Time, step: int, writes: list[tuple[str, Rows, Matrix]],
        now: set[str], later: set[str],
    ) -> None:  # fmt: skip
        if self.busy.get(task.name, at) > at:
            return
        inputs = max((i for link in task.links for i in link.into), default=-1) + 1
        k = task.memory.size
        u = self._gathered(task.links, self._zeros(max(inputs, task.matrix.shape[1] - k)), at)
        new = task.matrix @ np.vstack((self.memory[task.name], u))
        self.memory[task.name], payload = new[:k], new[k:]
        self.busy[task.name] = at + task.compute_ns
        for rows, part, extra in self._parts(task, payload, at):
            delay = task.compute_ns + task.transport_ns + extra
            if delay == 0 and task.successors:
                self.early[task.name][rows] = part
                writes.append((task.name, rows, part))
                for name in task.triggers:
                    (now if name in task.successors else later).add(name)
                continue
            arrival = (at + delay, 0) if delay else (at, step + 1)
            self.transits.append(Transit(arrival, task.name, rows, part, task.triggers))

    def _parts(
        self, task: Sender, payload: Matrix, at: Time
    ) -> list[tuple[Rows, Matrix, Fraction]]:
        everything = list(range(task.outputs.size))
        cut = self.cut
        if cut is None or cut.port != task.name:
            return [(everything, payload, Fraction(0))]
        rows = list(cut.rows)
        payload = payload.copy()
        payload[rows] *= cut.gain
        if cut.open:
            payload[rows] = self._use(at, payload[rows])
        if not cut.delay_ns:
            return [(everything, payload, Fraction(0))]
        rest = [i for i in everything if i not in rows]
        parts = [(rest, payload[rest], Fraction(0))] if rest else []
        return [*parts, (rows, payload[rows], cut.delay_ns)]

    def _use(self, at: Time, value: Matrix) -> Matrix:
        rows = len(value)
        if at not in self.uses:
            self.uses[at] = len(self.taken)
            self.taken.append(value)
        if self.channel is None:
            return np.zeros_like(value)
        first = self.uses[at] * rows
        return self.channel[first : first + rows]

    # -- inputs --------------------------------------------------------------------------------

    def _gathered(self, links: tuple[Link, ...], before: Matrix, at: Time) -> Matrix:
        out = before.copy()
        for link in links:
            value = self._value(link)[link.out]
            cut = self.cut
            if cut is not None and cut.port == link.port and link.port not in self.memory:
                value = self._seen(cut, link, value, at)
            out[link.into] = value
        return out

    def _value(self, link: Link) -> Matrix:
        if link.port in self.plants:
            return self.plants[link.port].committed
        return (self.early if link.early else self.ports)[link.port]

    def _seen(self, cut: Cut, link: Link, value: Matrix, at: Time) -> Matrix:
        out = value.copy()
        mine = [i for i, row in enumerate(link.out) if row in cut.rows]
        if not mine:
            return out
        out[mine] *= cut.gain
        if cut.open:
            whole = self._whole(cut, link)
            used = self._use(at, whole * cut.gain)
            out[mine] = used[[cut.rows.index(link.out[i]) for i in mine]]
        return out

    def _whole(self, cut: Cut, link: Link) -> Matrix:
        return self._value(link)[list(cut.rows)]


Label = tuple[str, str]
Ends = tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class PeriodMatrices:
    """State at the end of a period, and outputs, as linear functions."""

    state: Matrix
    inputs: Matrix
    output_state: Matrix
    direct: Matrix
    labels: tuple[Label, ...]


@dataclass(frozen=True)
class _Slot:
    labels: list[Label]
    get: Callable[[], Matrix]
    put: Callable[[Matrix], None]


def over_a_period(
    network: Network, period: Period, cut: Cut | None, end: Ends | None = None
) -> PeriodMatrices:
    """Return a sampled system for one common period of ``network``.

    With ``cut.open``, the inputs of the system replace the signal that ``cut`` selects. The outputs
    are the values of this signal, or the signal ``end`` at the start of the period.
    """
    run = SampledRun(network, cut)
    first = _settled(network, period, cut)
    run.run(first)
    uses = _uses(run, first + period.ns)
    slots = list(_slots(run))
    n = sum(len(slot.labels) for slot in slots)
    source = _cut_source(run)
    rows = 0 if cut is None or not cut.open else len(cut.rows)
    m = rows * (1 if source else uses)
    _widen(run, n + m)
    _fill(slots, run.columns)
    if m:
        channel = np.hstack((np.zeros((m, n)), np.eye(m)))
        run.channel = channel
        if source and cut is not None:
            run.ports[cut.port][list(cut.rows)] = channel
            run.early[cut.port][list(cut.rows)] = channel
    _settle_inputs(run)
    begun = _read(run, end) if end is not None else None
    run.run(run.now + period.ns)
    state = _stacked([slot.get() for slot in _slots(run)], n + m)
    out = _stacked(run.taken if begun is None else [begun], n + m)
    labels = _unique([label for slot in slots for label in slot.labels])
    return PeriodMatrices(state[:, :n], state[:, n:], out[:, :n], out[:, n:], tuple(labels))


def _settled(network: Network, period: Period, cut: Cut | None) -> Time:
    senders = [t for t in network.tasks if isinstance(t, Sender)]
    latest = max((t.offset_ns for t in network.tasks), default=0)
    delay = max((t.compute_ns + t.transport_ns for t in senders), default=0)
    total = latest + delay + (0 if cut is None else cut.delay_ns)
    return Time((int(total // period.ns) + 2) * period.ns)


def _uses(run: SampledRun, until: Time) -> int:
    run.taken.clear()
    run.uses.clear()
    run.run(until)
    count = len(run.taken)
    run.taken.clear()
    run.uses.clear()
    return count


def _cut_source(run: SampledRun) -> bool:
    cut = run.cut
    return cut is not None and cut.port not in run.memory and cut.port not in run.plants


def _slots(run: SampledRun) -> Iterator[_Slot]:
    for name, values in run.plants.items():
        n, d, _, _ = values.plant.sizes
        names = _labels(run, name)
        yield _attribute(values, "x", names[:n])
        if any(isinstance(t, Changer) and t.plant == name for t in run.network.tasks):
            yield _attribute(values, "z", names[n : n + d])
        rows = _sampled_inputs(run, values)
        if rows:
            held = [(f"{label}_held", unit) for label, unit in names[n + d :]]
            yield _rows(values, rows, [held[i] for i in rows])
    for task in run.network.tasks:
        if not isinstance(task, Sender):
            continue
        memory = [(f"{task.name}_{c}", s.unit) for s in task.memory for c in s.columns]
        yield _item(run.memory, task.name, memory)
        held = [(f"{label}_held", unit) for label, unit in _labels(run, task.name)]
        yield _both(run, task.name, held)
    counts: dict[str, int] = {}
    for message in sorted(run.transits, key=lambda m: (m.port, m.arrival, m.rows)):
        counts[message.port] = counts.get(message.port, 0) + 1
        names = _labels(run, message.port)
        labels = [
            (f"{names[i][0]}_in_transit_{counts[message.port]}", names[i][1]) for i in message.rows
        ]
        yield _attribute(message, "payload", labels)


def _labels(run: SampledRun, port: str) -> list[Label]:
    signals = run.network.ports[port]
    return [(f"{port}_{c}", s.unit) for s in signals for c in s.columns]


def _attribute(owner: object, name: str, labels: list[Label]) -> _Slot:
    return _Slot(labels, lambda: getattr(owner, name), lambda new: setattr(owner, name, new))


def _item(owner: dict[str, Matrix], name: str, labels: list[Label]) -> _Slot:
    return _Slot(labels, lambda: owner[name], lambda new: owner.update({name: new}))


def _both(run: SampledRun, port: str, labels: list[Label]) -> _Slot:
    def put(new: Matrix) -> None:
        run.ports[port] = new
        run.early[port] = new.copy()

    return _Slot(labels, lambda: run.ports[port], put)


def _rows(values: PlantValues, rows: list[int], labels: list[Label]) -> _Slot:
    def put(new: Matrix) -> None:
        values.u[rows] = new

    return _Slot(labels, lambda: values.u[rows], put)


def _sampled_inputs(run: SampledRun, values: PlantValues) -> list[int]:
    source = run.cut.port if _cut_source(run) and run.cut is not None else ""
    return [
        i for link in values.plant.links if link.port in run.plants or link.port == source
        for i in link.into
    ]  # fmt: skip


def _messages(run: SampledRun, values: PlantValues) -> list[Link]:
    return [link for link in values.plant.links if link.port in run.memory]


def _widen(run: SampledRun, columns: int) -> None:
    run.columns = columns
    for values in run.plants.values():
        for name in ("x", "z", "u", "committed"):
            setattr(values, name, np.zeros((len(getattr(values, name)), columns)))
    for stored in (run.ports, run.early, run.memory):
        for name, matrix in stored.items():
            stored[name] = np.zeros((len(matrix), columns))
    for message in run.transits:
        message.payload = np.zeros((len(message.payload), columns))


def _fill(slots: list[_Slot], columns: int) -> None:
    first = 0
    for slot in slots:
        size = len(slot.labels)
        block = np.zeros((size, columns))
        block[:, first : first + size] = np.eye(size)
        slot.put(block)
        first += size


def _settle_inputs(run: SampledRun) -> None:
    for values in run.plants.values():
        for link in _messages(run, values):
            values.u[link.into] = run.ports[link.port][link.out]
        values.commit()


def _read(run: SampledRun, end: Ends) -> Matrix:
    port, rows = end
    whole = run.plants[port].committed if port in run.plants else run.ports[port]
    return whole[list(rows)].copy()


def _stacked(parts: list[Matrix], columns: int) -> Matrix:
    return np.vstack(parts) if parts else np.zeros((0, columns))


def _unique(labels: list[Label]) -> list[Label]:
    seen: dict[str, int] = {}
    out = []
    for name, unit in labels:
        seen[name] = seen.get(name, 0) + 1
        out.append((name if seen[name] == 1 else f"{name}_{seen[name]}", unit))
    return out

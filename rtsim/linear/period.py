"""The matrices of a network over one common period."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from rtsim.core.tag import Period
from rtsim.linear.network import Changer, Link, Network, Sender
from rtsim.linear.sampled_run import Cut, PlantValues, SampledRun, Time
from rtsim.linear.state_space import Matrix

Label = tuple[str, str]
"""Name and unit."""
Ends = tuple[str, tuple[int, ...]]
"""A port and its rows."""


@dataclass(frozen=True)
class PeriodMatrices:
    """State at the end of a period, and outputs, by the state at its start and the inputs."""

    state: Matrix
    inputs: Matrix
    output_state: Matrix
    direct: Matrix
    labels: tuple[Label, ...]


@dataclass(frozen=True)
class _Slot:
    """Elements of the state: their labels, and how to read and write them."""

    labels: list[Label]
    get: Callable[[], Matrix]
    put: Callable[[Matrix], None]


def over_a_period(
    network: Network, period: Period, cut: Cut | None, end: Ends | None = None
) -> PeriodMatrices:
    """Return the matrices of ``network`` from just before an instant to a period later.

    With an open ``cut`` the inputs are those of the cut, and the outputs its own values, or the
    elements ``end`` at the start of the period.
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
    """Return a time after which the pattern of events repeats: a multiple of the period."""
    senders = [t for t in network.tasks if isinstance(t, Sender)]
    latest = max((t.offset_ns for t in network.tasks), default=0)
    delay = max((t.compute_ns + t.transport_ns for t in senders), default=0)
    total = latest + delay + (0 if cut is None else cut.delay_ns)
    return Time((int(total // period.ns) + 2) * period.ns)


def _uses(run: SampledRun, until: Time) -> int:
    """Run a period, and return how often the cut's signal is used in it."""
    run.taken.clear()
    run.uses.clear()
    run.run(until)
    count = len(run.taken)
    run.taken.clear()
    run.uses.clear()
    return count


def _cut_source(run: SampledRun) -> bool:
    """Return whether the cut is at a port that nothing computes."""
    cut = run.cut
    return cut is not None and cut.port not in run.memory and cut.port not in run.plants


def _slots(run: SampledRun) -> Iterator[_Slot]:
    """Return the elements of the state, in an order that depends on the network alone."""
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
    """Return the inputs that hold a sample of a plant, or of the source at which the cut is."""
    source = run.cut.port if _cut_source(run) and run.cut is not None else ""
    return [
        i for link in values.plant.links if link.port in run.plants or link.port == source
        for i in link.into
    ]  # fmt: skip


def _messages(run: SampledRun, values: PlantValues) -> list[Link]:
    return [link for link in values.plant.links if link.port in run.memory]


def _widen(run: SampledRun, columns: int) -> None:
    """Set all values to 0, with ``columns`` columns."""
    run.columns = columns
    for values in run.plants.values():
        for name in ("x", "z", "u", "committed"):
            setattr(values, name, np.zeros((len(getattr(values, name)), columns)))
    for held in (run.ports, run.early, run.memory):
        for name, matrix in held.items():
            held[name] = np.zeros((len(matrix), columns))
    for message in run.transits:
        message.payload = np.zeros((len(message.payload), columns))


def _fill(slots: list[_Slot], columns: int) -> None:
    """Give each element of the state a column of its own."""
    first = 0
    for slot in slots:
        size = len(slot.labels)
        block = np.zeros((size, columns))
        block[:, first : first + size] = np.eye(size)
        slot.put(block)
        first += size


def _settle_inputs(run: SampledRun) -> None:
    """Set the inputs of plants that hold messages; these inputs are no state of their own."""
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

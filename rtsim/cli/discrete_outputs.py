"""The final outputs of discrete-event components, printed after the run."""

from __future__ import annotations

from typing import Any

from rtsim.cli.tables import Column, console, print_table
from rtsim.engine.system import System


def outputs_at_end(system: System) -> dict[str, dict[str, Any]]:
    """Return the final outputs by component and name: a number, or a list for an array."""
    out: dict[str, dict[str, Any]] = {}
    for task in system.tasks:
        port = system.ports.get(task.name)
        if not hasattr(task, "hear") or port is None or not len(port.signals):
            continue  # a controller receives no messages
        values = {s.name: port.value[port.signals.slice(s.name)].tolist() for s in port.signals}
        out[task.name] = {
            s.name: values[s.name] if s.shape else values[s.name][0] for s in port.signals
        }
    return out


def print_outputs(system: System) -> None:
    """Print a table with the final value of each output; print nothing if there are no outputs."""
    rows = [
        (part, name, " ".join(f"{v:g}" for v in (value if isinstance(value, list) else [value])))
        for part, outputs in outputs_at_end(system).items()
        for name, value in outputs.items()
    ]
    if rows:
        columns = (Column("component"), Column("output"), Column("final value", fold=True))
        print_table(console(), "Discrete events", columns, rows)

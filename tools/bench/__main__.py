"""``python -m tools.bench [--quick] [--json] [--only NAME]``: all of it, one after the other.

Exit status: 0 every bound is kept, 1 one is not, 2 a bench could measure nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import click
from rich.console import Console

from rtsim.core.errors import OverrunError
from rtsim.core.outcome import Outcome
from rtsim.timing.scheduling import examine_machine
from tools.bench.results import Result, Row


def _wake(quick: bool) -> Result:
    """(a), which measures in processes of its own."""
    wake = import_module("tools.bench.wake")
    try:
        found: dict[str, Any] = wake.run(quick)
    except wake.NoCompiler as error:
        return Result("wake", "lateness", skipped=str(error))
    rows = []
    for what, name in wake.LOOPS:
        if "skipped" in found[name]:
            rows.append(Row(f"{what}: {found[name]['skipped']}", {}))
        else:
            rows.append(Row(what, {f"{k} [ns]": float(v) for k, v in found[name].items()}))
    rows += [
        Row(f"{c['loop']}: {c['figure']} against C", {f"{c['figure']} [ns]": c["ns"]},
            f"<= {c['allowed_ns'] / 1e3:.2f} us", bool(c["ok"]))
        for c in found["criteria"]
    ]  # fmt: skip
    title = (
        f"lateness at {found['rate_hz']} Hz, {found['pairs']} rounds of {found['seconds']:g} s, "
        f"tail {found['spin_ns'] / 1e3:g} us"
    )
    return Result("wake", title, tuple(rows))


def _module(name: str) -> Callable[[bool], Result]:
    """The module is imported when its turn comes."""
    return lambda quick: import_module(f"tools.bench.{name}").run(quick)


_MODULES = (
    "start",
    "frame",
    "step",
    "fmu",
    "speed",
    "rate",
    "rows",
    "memory",
    "sil",
    "pitl",
    "pilot",
    "gateway",
    "web",
    "monitor",
    "blocks",
    "discrete",
    "solve",
    "equations",
    "prepared",
    "bodies",
    "study",
    "federate",
    "processors",
)
BENCHES: dict[str, Callable[[bool], Result]] = {
    "wake": _wake,
    **{name: _module(name) for name in _MODULES},
}


@click.command()
@click.option("--quick", is_flag=True, help="Short runs: does it work?  Not for figures.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("--only", multiple=True, type=click.Choice(list(BENCHES)), help="This one only.")
def main(quick: bool, as_json: bool, only: tuple[str, ...]) -> None:
    """Measure rtsim: ratios in one run, opponents in turns, medians and tails."""
    # A pipe has no width of its own: the widest table fits.
    out = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    progress = Console(stderr=True, highlight=False)
    results = []
    for name in only or BENCHES:
        progress.print(f"measuring: {name} ...")
        try:
            result = BENCHES[name](quick)
        except OverrunError as error:  # the machine paused for longer than the policy allows
            result = Result(name, name, skipped=str(error))
        results.append(result)
        if not as_json:
            out.print(result.table())
    if as_json:
        machine = examine_machine().__dict__
        benches = [r.to_json() for r in results]
        print(json.dumps({"machine": machine, "quick": quick, "benches": benches}, indent=2))
    for result in results:
        for reason in result.lacking:
            progress.print(f"not measured: {result.name}: {reason}", soft_wrap=True, markup=False)
    sys.exit(Outcome.of_all(r.outcome for r in results).value)


if __name__ == "__main__":
    main()

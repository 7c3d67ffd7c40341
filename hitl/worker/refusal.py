"""What the status of a generated unit means, in words; the same from a worker and a library."""

from __future__ import annotations

from hitl.worker.messages import OF_ANOTHER_SIZE
from rtsim.core.signals import Signals, Vector

EXITED = 0x40000000
"""And above, with the exit status: of a library whose C has called exit() (``guard.c``)."""


def refusal(name: str, status: int, given: Signals, values: Vector, outputs: Signals) -> str:
    """Why controller ``name`` answered ``status`` (not 0) to ``values`` of layout ``given``."""
    if status == OF_ANOTHER_SIZE:
        return f"{name} was sent another number of values than it expects"
    if status >= EXITED:
        return f"{name} called exit({status - EXITED}), where it is to return"
    column = abs(status) - 1
    signals = given if status > 0 else outputs
    if column >= signals.size:
        return f"{name} answered with status {status}"
    element = signals.columns[column]
    kind = next(s for s in signals if element in s.columns).type
    if status < 0:
        return f"output {element} of {name} is an {kind} beyond 2^53: no float64 holds it"
    return (
        f"{element} = {float(values[column])!r} of {name} does not fit its {kind}; mend what "
        "sends it, change its type or scale, or let it saturate (overflow = 'saturate')"
    )

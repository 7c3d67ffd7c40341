"""Explains the status that generated code returns; a worker and a library use the same."""

from __future__ import annotations

from hitl.worker.messages import OF_ANOTHER_SIZE
from rtsim.core.signals import Signals, Vector

EXITED = 0x40000000
"""Status of a library whose C called exit(): this number plus the exit status (``guard.c``)."""
THREW = 0x20000000
"""Status of a library whose C++ code threw what it did not catch (``rtsim_unit.h``)."""
THROWN_BYTES = 256
"""Bytes of the text of what was thrown, as in ``rtsim_unit.h``."""

_UNDECLARED, _WRAPPED = "rtsim_undeclared: ", "rtsim_wrapped: "
"""Begins of the texts of exceptions for what the interface file lacks (``rtsim_arduino.cpp``), and
for a clock that this host cannot continue (``clock_host.cpp``)."""
MISFIT = "the interface file does not fit the code: "
"""Begin of the text of the error for what the interface file lacks."""


def misfit(thrown: str) -> str:
    """Return what the interface file lacks for the code, as a clause; "" for other exceptions."""
    for sign in (_UNDECLARED, _WRAPPED):
        _, found, lacking = thrown.partition(sign)
        if found:
            return f"{MISFIT}{lacking}"
    return ""


def refusal(
    name: str, status: int, given: Signals, values: Vector, outputs: Signals, thrown: str = ""
) -> str:
    """Explain why the controller ``name`` answered ``status`` (not 0).

    ``thrown`` is the text of what its C++ code threw.

    ``values`` are the inputs or parameters that it was sent, with the layout ``given``; for a
    negative status ``outputs`` is the layout of its outputs.
    """
    if status == OF_ANOTHER_SIZE:
        return f"{name} was sent a wrong number of values"
    if status == THREW:
        if lacking := misfit(thrown):
            return f"{name}: {lacking}"
        return f"{name} threw {thrown}, which nothing caught"
    if status >= EXITED:
        return f"{name} called exit({status - EXITED}), but it must return"
    column = abs(status) - 1
    signals = given if status > 0 else outputs
    if column >= signals.size:
        return f"{name} answered with the unknown status {status}"
    element = signals.columns[column]
    kind = next(s for s in signals if element in s.columns).type
    if status < 0:
        return f"output {element} of {name} is an {kind} above 2^53 that no float64 can represent"
    return (
        f"{element} = {float(values[column])!r} of {name} does not fit its type {kind}; correct "
        "its source, change its type or scale, or let it saturate (overflow = 'saturate')"
    )

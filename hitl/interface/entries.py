"""The table ``[code]`` of an interface file: entry points as C statements."""

from __future__ import annotations

from dataclasses import dataclass

from hitl.interface.c_text import fault_of_statement
from hitl.interface.fields import whole
from hitl.interface.tables import Table

KEYS = ("objects", "initialize", "initialize_once", "step", "terminate", "parameters")
_STEP = ("call", "every", "offset")
WHEN = ("after initialize", "before initialize")


@dataclass(frozen=True)
class StepEntry:
    """An entry point of the controller: called at ticks ``offset``, ``offset + every``, …"""

    call: str
    every: int = 1
    offset: int = 0
    line: int = 0


def read_statements(code: Table, key: str) -> tuple[str, ...]:
    """Return the statements under ``key`` without their ``;``.

    Raises :class:`InterfaceError` for a text that is no statement.
    """
    return tuple(_statement(code, key, text, k) for k, text in enumerate(code.texts(key)))


def read_once(code: Table) -> bool:
    """Return True if the controller is initialised only once in a process.

    Raises :class:`InterfaceError` for another value than true or false.
    """
    value = code.data.get("initialize_once", False)
    if not isinstance(value, bool):
        raise code.error(
            "initialize_once", f"initialize_once = {value!r} is not valid; write true or false"
        )
    return value


def read_parameters_first(code: Table) -> bool:
    """Return True if parameters are set before the controller is initialised.

    Raises :class:`InterfaceError` for an unknown value.
    """
    when = code.data.get("parameters", WHEN[0])
    if when not in WHEN:
        raise code.error(
            "parameters", f"parameters = {when!r} is unknown; choose {' or '.join(WHEN)}"
        )
    return bool(when == WHEN[1])


def read_steps(code: Table) -> tuple[StepEntry, ...]:
    """Return the entry points of a step; raises :class:`InterfaceError` if there is none."""
    value = code.data.get("step", [])
    rows = value if isinstance(value, list) else [value]
    if not rows:
        raise code.error("step", 'step is missing; write step = "controller_step(&in, &out)"')
    return tuple(_step(code, row, element) for element, row in enumerate(rows))


def _step(code: Table, row: object, element: int) -> StepEntry:
    if isinstance(row, str):
        row = {"call": row}
    if not isinstance(row, dict) or not isinstance(row.get("call"), str):
        text = 'a step must be a text or { call = "...", every = ... }'
        raise code.error("step", text, element)
    for key in row:
        if key not in _STEP:
            text = f"a step has no key {key!r}; known: {', '.join(_STEP)}"
            raise code.error("step", text, element)
    call = _statement(code, "step", row["call"], element)
    every, offset = row.get("every", 1), row.get("offset", 0)
    if not whole(every, 1) or not whole(offset, 0):
        text = (
            f"every = {every!r}, offset = {offset!r}; every must be a whole number >= 1, offset a "
            "whole number >= 0"
        )
        raise code.error("step", text, element)
    return StepEntry(call, every, offset, code.lines.of("code", "step", element))


def _statement(code: Table, key: str, text: str, element: int) -> str:
    bare = text.strip().rstrip("; \n\t")
    fault = fault_of_statement(bare) if bare else "it is empty"
    if fault:
        raise code.error(key, f"{text!r} is not a statement of C: {fault}", element)
    return bare

"""Write a fault file that :func:`rtsim.engine.faults.read_faults` reads with exact times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from rtsim.core.errors import ScenarioError
from rtsim.engine.faults.kind import Fault, FaultError
from rtsim.engine.faults.reading import MOST_FAULTS, read_faults


def write_faults(
    path: str | Path, faults: Sequence[Fault], about: Iterable[str] = (), *, force: bool = False
) -> None:
    """Write ``faults`` to the fault file ``path``; ``about``: comment lines at its head.

    ``force``: overwrite an existing fault file.  Files of other kinds are never overwritten.
    Raises :class:`ScenarioError` if the file cannot be written.
    """
    path = Path(path)
    if len(faults) > MOST_FAULTS:
        raise ScenarioError(
            f"there are {len(faults)} faults, but a fault file can have at most {MOST_FAULTS}"
        )
    lines = [f"# {line}" for line in about]
    for fault in faults:
        lines += ["", "[[fault]]", *(f"{k} = {_toml(v)}" for k, v in fault.describe().items())]
    try:
        if force:
            _refuse_to_overwrite(path)
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    except FileExistsError:
        raise ScenarioError(
            f"{path} exists already; give another path with -o PATH, or --force to overwrite it"
        ) from None
    except OSError as error:
        raise ScenarioError(
            f"cannot write {path}: {error.strerror}; give another path with -o PATH"
        ) from None


def _refuse_to_overwrite(path: Path) -> None:
    if not path.is_file() or path.stat().st_size == 0:
        return
    try:
        read_faults(path)
    except FaultError:
        raise ScenarioError(
            f"{path} is not a fault file and is not overwritten; give another path with -o PATH"
        ) from None


def _toml(value: Any) -> str:
    """Return ``value`` as TOML; a text is written as JSON, which is valid TOML."""
    if isinstance(value, str):
        return json.dumps(_decimal(value))
    return repr(value)


def _decimal(text: str) -> str:
    """Return an exact time as a decimal number if possible, such as 0.03 for 3/100."""
    try:
        exact = Fraction(text) * 10**9
    except (ValueError, ZeroDivisionError):
        return text
    if exact.denominator != 1 or exact < 0:
        return text
    whole, rest = divmod(int(exact), 10**9)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")

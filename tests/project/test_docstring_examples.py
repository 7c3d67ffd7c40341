"""Each name that ``import rtsim`` offers has an example in its docstring, and the example runs."""

from __future__ import annotations

import inspect
import re
import textwrap

import pytest

import rtsim

NAMES = [name for name in rtsim.__all__ if name != "__version__"]
FIRST = ("Signal", "Signals", "Model", "PythonController", "Scenario")
"""Later examples use what these define."""
NEEDS_A_RUN = ("connect", "simulate", "Recording", "Mesh")
"""These examples need a run in progress, a scenario or a file; docs/ shows them at work."""


def example(name: str) -> str:
    """Return the indented block that ends the docstring."""
    blocks = re.findall(
        r"(?:^    .*\n?|^\n)+", (inspect.getdoc(getattr(rtsim, name)) or "") + "\n", re.M
    )
    found = [textwrap.dedent(block).strip() for block in blocks if block.strip()]
    return found[-1] if found else ""


@pytest.mark.parametrize("name", NAMES)
def test_it_has_an_example(name: str) -> None:
    assert name in example(name)
    compile(example(name), name, "exec")


def test_the_examples_run() -> None:
    scope: dict[str, object] = {name: getattr(rtsim, name) for name in NAMES}
    for name in (*FIRST, *(n for n in NAMES if n not in (*FIRST, *NEEDS_A_RUN))):
        # of functions, numba needs the source: they stay plain Python here
        exec(compile(example(name).replace("compile=True", "compile=False"), name, "exec"), scope)
    assert {"heater", "thermostat", "room", "drag"} <= scope.keys()

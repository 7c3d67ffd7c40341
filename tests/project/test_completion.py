"""What jedi completes, as in notebooks and in editors with jedi; tests/project/test_editors.py asks
pyright's language server."""

from __future__ import annotations

import runpy
from importlib import import_module
from pathlib import Path
from typing import Any

import jedi
import pytest
from faces import FACES

import rtsim as rt

PROGRAM = Path(__file__).parent / "typed" / "by_name.py"


@pytest.mark.parametrize("face", FACES)
def test_an_editor_completes_each_public_name(face: str) -> None:
    offered = {found.name for found in jedi.Script(f"import {face} as face\nface.").complete()}
    assert set(import_module(face).__all__) <= offered


@pytest.fixture(scope="module")
def notebook() -> dict[str, Any]:
    loop, cart, brake = runpy.run_path(str(PROGRAM))["loop_of"](0.0)
    return {"loop": loop, "cart": cart, "brake": brake, "run": rt.simulate(loop)}


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("cart.", {"x", "speed", "force", "stopped", "offset", "power"}),
        ("brake.", {"x", "speed", "force", "gain"}),
        ("run.", {"cart", "brake", "time", "events", "table", "plot", "recording"}),
        ("run.cart.", {"x", "speed", "force", "stopped", "power"}),
        ("loop.", {"plant", "controller", "connect", "set", "at", "draw"}),
    ],
)
def test_a_notebook_completes(typed: str, wanted: set[str], notebook: dict[str, Any]) -> None:
    offered = {found.name for found in jedi.Interpreter(typed, [notebook]).complete()}
    assert wanted <= offered, wanted - offered

"""Modules can be imported by the names that they had before, with a warning."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.machinery import ModuleSpec

import pytest

from rtsim.core.old_names import _NEW, install, new_name
from rtsim.scenario import Scenario


@pytest.mark.parametrize("old", sorted(_NEW))
def test_the_old_name_gives_the_module_itself_and_warns(old: str) -> None:
    new = importlib.import_module(_NEW[old])
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} was renamed: import {_NEW[old]} instead"):
        assert importlib.import_module(old) is new
    assert isinstance(new.__spec__, ModuleSpec)
    assert (new.__name__, new.__spec__.name) == (_NEW[old], _NEW[old])


def test_a_module_of_a_package_that_moved_is_not_a_second_copy() -> None:
    program = (
        "from rtsim.control.commands import Inbox; "
        "from rtsim.engine.commands.commands import Inbox as I; "
        "from rtsim.faults import read_faults; from rtsim.tag import Tag; import rtsim.core.tag; "
        "assert Inbox is I and Tag is rtsim.core.tag.Tag; print('the same')"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always::DeprecationWarning", "-c", program],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "the same\n", done.stderr
    assert (
        "<string>:1: DeprecationWarning: rtsim.control was renamed: import rtsim.engine"
        in done.stderr
    )


def test_other_names_are_not_found() -> None:
    assert new_name("rtsim.nothing") is None
    assert new_name("numpy.tag") is None
    before = list(sys.meta_path)
    install()
    assert sys.meta_path == before
    with pytest.raises(ModuleNotFoundError, match=r"rtsim\.nothing"):
        importlib.import_module("rtsim.nothing")


@pytest.mark.parametrize(
    ("module", "name", "now"),
    [
        *(
            ("rtsim.engine.checkpoint.schedule", name, "rtsim.engine.checkpoint.file")
            for name in ("Files", "MOST_FILES", "Ring", "beside", "path_beside")
        ),
        ("rtsim.pilot.scenes.scene", "scene_named", "rtsim.pilot.scenes.registry"),
    ],
)
def test_a_name_that_moved_is_found_where_it_was_and_warns(
    module: str, name: str, now: str
) -> None:
    with pytest.warns(DeprecationWarning, match=f"{module}.{name} is in {now} now"):
        found = getattr(importlib.import_module(module), name)
    assert found is getattr(importlib.import_module(now), name)
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'nothing'"):
        _ = importlib.import_module(module).nothing


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        *(
            ("rtsim.scenario.standard_components", kind)
            for kind in (
                *("ExternalInput", "Noise", "Plant", "Processes"),
                *("Sensor", "Source", "Topic"),
            )
        ),
        ("rtsim.scenario.controller_component", "Controller"),
    ],
)
def test_the_old_name_of_a_class_gives_the_class_and_warns(module: str, kind: str) -> None:
    home = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=f"{module}.{kind}Part is called {kind}Component"):
        found = getattr(home, f"{kind}Part")
    assert found is getattr(home, f"{kind}Component")
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'nothing'"):
        _ = home.nothing


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("parts", "components"),
        ("part", "component"),
        ("controller_part", "controller_component"),
        ("inlet", "external_input"),
    ],
)
def test_the_old_name_of_an_attribute_of_a_scenario_works_and_warns(old: str, new: str) -> None:
    scenario = Scenario("s")
    with pytest.warns(DeprecationWarning, match=f"Scenario.{old} is called {new} now"):
        found = getattr(scenario, old)
    assert found == getattr(scenario, new)

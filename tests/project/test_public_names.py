"""docs/stability.md: no public name goes without a change of the list of public names."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from tools import public_names
from tools.public_names import entry_point_groups, listed, missing, public_packages, written

REMEDY = (
    "docs/stability.md: deprecate a public name before it goes; "
    "python -m tools.public_names writes the list anew"
)


@pytest.fixture(scope="module")
def found() -> public_names.Names:
    return public_names.public_names()


def test_each_listed_name_is_there(found: public_names.Names) -> None:
    assert missing(listed(), found) == [], REMEDY


def test_each_public_name_is_listed(found: public_names.Names) -> None:
    assert missing(found, listed()) == [], REMEDY


def test_the_list_has_the_form_that_the_command_writes() -> None:
    assert public_names.LIST.read_text(encoding="utf-8") == written(listed()), REMEDY


def test_what_is_public(found: public_names.Names) -> None:
    assert {"rtsim", "rtsim.blocks", "rtsim.discrete", "rtsim.studies", "hitl"} <= set(found)
    assert {"Scenario", "Plant", "Controller", "simulate"} <= set(found["rtsim"])
    assert {"run", "replay", "sil", "pitl"} <= set(found["commands"])
    assert {"rtsim.commands", "rtsim.solvers", "rtsim.scenarios", "rtsim.boards"} <= set(
        entry_point_groups()
    )


@pytest.mark.parametrize("place", [*public_packages(), "commands", "entry points"])
def test_a_removed_name_is_found(place: str, found: public_names.Names) -> None:
    gone = found[place][0]
    less = {**found, place: found[place][1:]}
    assert missing(listed(), less) == [f"{place}: {gone}"]


def test_the_command_says_which_name_the_list_loses(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path_factory.mktemp("names") / "public_names.toml"
    path.write_text(written({"rtsim": ["Skenario"]}), encoding="utf-8")
    monkeypatch.setattr(public_names, "LIST", path)
    said = CliRunner().invoke(public_names.main)
    assert said.exit_code == 0
    assert "rtsim: Skenario" in said.output
    assert "Scenario" in public_names.listed()["rtsim"]

"""docs/architecture.md names packages and files that are there, and every package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
FILES = sorted(set(re.findall(r"`((?:\w+/)+\w*(?:\.\w+)?)`", PAGE)))
MOST_AT_THE_ROOT = 18


def packages() -> set[str]:
    """The packages at the root of rtsim."""
    return {path.parent.name for path in (ROOT / "rtsim").glob("*/__init__.py")}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_it_names_is_there(name: str) -> None:
    assert (ROOT / name).exists() or (ROOT / "rtsim" / name).exists()


def test_the_picture_has_every_package() -> None:
    picture = PAGE.split("```text")[1].split("```")[0]
    assert packages() <= set(re.findall(r"[a-z]+", picture))


def test_the_root_stays_small() -> None:
    assert len(packages()) <= MOST_AT_THE_ROOT
    modules = {path.name for path in (ROOT / "rtsim").glob("*.py")}
    assert modules == {"__init__.py", "__main__.py"}


@pytest.mark.parametrize("name", sorted(packages()))
def test_each_package_says_what_it_is_for(name: str) -> None:
    first = (ROOT / "rtsim" / name / "__init__.py").read_text(encoding="utf-8").splitlines()[0]
    assert re.match(r'"""[A-Z].{20,}[.:]', first), first

"""The documentation site has every page, and the links of pages lead somewhere."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tools.docs_site import (
    OUTSIDE,
    ROOT,
    for_the_site,
    linked,
    outside_files,
    pages_of_the_project,
    site_uri,
)

CONFIGURATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
PAGES = pages_of_the_project()
LISTED = re.findall(r"^ +- (?:.+: )?(\S+\.md)$", CONFIGURATION.partition("\nnav:\n")[2], re.M)
API = sorted((ROOT / "docs/api").glob("*.md"))


def test_the_site_lists_every_page_once() -> None:
    wanted = sorted(site_uri(page) for page in PAGES)
    assert sorted(LISTED) == wanted, "list it under nav: in mkdocs.yml"


@pytest.mark.parametrize("page", PAGES)
def test_a_link_leads_to_a_file(page: str) -> None:
    missing = [path for path in linked(PAGES[page], page) if not (ROOT / path).exists()]
    assert not missing


def test_pages_link_to_files_outside_docs() -> None:
    found = outside_files(PAGES)
    assert "pyproject.toml" in found
    assert not found & set(OUTSIDE)
    assert not [path for path in found if path.startswith(("docs/", ".."))]


@pytest.mark.parametrize(
    ("page", "text", "on_the_site"),
    [
        ("README.md", "[a](docs/sil.md#x)", "[a](sil.md#x)"),
        ("README.md", "![a](docs/pictures/a.svg)", "![a](pictures/a.svg)"),
        ("README.md", "[`a`](LICENSE)", "[`a`](repository/LICENSE)"),
        ("CONTRIBUTING.md", "the [`commands`](rtsim/cli/).", "the `commands`."),
        ("docs/sil.md", "[a](glossary.md), [b](../README.md)", "[a](glossary.md), [b](README.md)"),
        ("docs/decisions/README.md", "[a](../../CONTRIBUTING.md#b)", "[a](../CONTRIBUTING.md#b)"),
        ("docs/sil.md", "[a](../setup.py)", "[a](repository/setup.py)"),
        ("firmware/README.md", "[a](../docs/hitl.md)", "[a](../hitl.md)"),
        ("docs/sil.md", "[a](https://b.org/c.md) [d](#e)", "[a](https://b.org/c.md) [d](#e)"),
        ("docs/sil.md", "```c\n[a](../b.c)\n```", "```c\n[a](../b.c)\n```"),
        ("docs/sil.md", "```python file=a.py\n", '```python title="a.py"\n'),
        ("docs/sil.md", "   | a |", "    | a |"),
    ],
)
def test_a_page_is_rewritten_for_the_site(page: str, text: str, on_the_site: str) -> None:
    assert for_the_site(text, page) == on_the_site


@pytest.mark.parametrize("page", API, ids=lambda page: page.stem)
def test_the_reference_names_modules_that_are_there(page: Path) -> None:
    names = re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.M)
    assert names or page.stem == "README"
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute)


def test_the_reference_of_rtsim_has_every_name() -> None:
    import rtsim

    page = (ROOT / "docs/api/rtsim.md").read_text(encoding="utf-8")
    assert set(rtsim.__all__) <= set(re.findall(r"`(?:rtsim\.)?(\w+)`", page))

"""The documentation site has every page, and the links of pages lead somewhere.

docs/architecture.md names packages and files that are there, and every package.

Each name that ``import rtsim`` offers has an example in its docstring, and the example runs.
"""

from __future__ import annotations

import importlib
import inspect
import linecache
import re
import textwrap
from pathlib import Path

import pytest

import rtsim
from tools.docs_site import (
    OUTSIDE,
    ROOT,
    for_the_site,
    headings,
    linked,
    linked_headings,
    outside_files,
    pages_of_the_project,
    site_uri,
)

CONFIGURATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
PAGES = pages_of_the_project()
HEADINGS = {page: headings(text) for page, text in PAGES.items()}
LISTED = re.findall(r"^ +- (?:.+: )?(\S+\.md)$", CONFIGURATION.partition("\nnav:\n")[2], re.M)
API = sorted((ROOT / "docs/api").glob("*.md"))


def test_the_site_lists_every_page_once() -> None:
    wanted = sorted(site_uri(page) for page in PAGES)
    assert sorted(LISTED) == wanted, "list it under nav: in mkdocs.yml"


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_a_link_leads_to_a_file(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    missing = [path for path in linked(text, page) if not (ROOT / path).exists()]
    assert not missing


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_a_link_to_a_heading_leads_to_a_heading(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    missing = [
        f"{path}#{heading}"
        for path, heading in linked_headings(text, page)
        if path in PAGES and heading not in HEADINGS[path]
    ]
    assert not missing


def test_the_start_page_leads_to_each_page_of_the_manual() -> None:
    """Decisions, the pages of the Python API and those on extensions have pages that list them."""
    manual = [page for page in PAGES if page.startswith("docs/") and page.count("/") == 1]
    wanted = {page for page in manual if not page.startswith("docs/extending-")}
    assert wanted - {"docs/index.md"} <= set(linked(PAGES["docs/index.md"], "docs/index.md"))


def test_the_readme_is_short() -> None:
    """Its first screen says why one should care; the site's start page lists the pages."""
    words = (ROOT / "README.md").read_text(encoding="utf-8").split()
    assert len(words) <= 1800


def test_pages_link_to_files_outside_docs() -> None:
    found = outside_files(PAGES)
    assert "pyproject.toml" in found
    assert not found & set(OUTSIDE)
    assert not [path for path in found if path.startswith(("docs/", ".."))]


@pytest.mark.parametrize(
    ("page", "text", "on_the_site"),
    [
        ("CHANGELOG.md", "[a](docs/sil.md#x)", "[a](sil.md#x)"),
        ("CHANGELOG.md", "![a](docs/pictures/a.svg)", "![a](pictures/a.svg)"),
        ("SECURITY.md", "[`a`](LICENSE)", "[`a`](repository/LICENSE)"),
        ("CONTRIBUTING.md", "the [`commands`](rtsim/cli/).", "the `commands`."),
        (
            "docs/sil.md",
            "[a](glossary.md), [b](../SECURITY.md)",
            "[a](glossary.md), [b](SECURITY.md)",
        ),
        ("docs/sil.md", "the [rest](../README.md#install)", "the rest"),
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


PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
FILES = sorted(set(re.findall(r"`((?:\w+/)+\w*(?:\.\w+)?)`", PAGE)))
MOST_AT_THE_ROOT = 23


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


NOT_MADE = ("RunResult", "Vector", "__version__")
"""No user makes these; nor an error."""
NAMES = [
    name
    for name in rtsim.__all__
    if name not in NOT_MADE
    and not (isinstance(made := getattr(rtsim, name), type) and issubclass(made, Exception))
]
FIRST = ("Signal", "Signals", "Model", "PythonController", "Scenario")
"""Later examples use what these define."""
NEEDS_A_RUN = ("connect", "simulate", "Simulation", "MemoryRecorder", "Recording", "Mesh")
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
        text, place = example(name).replace("compile=True", "compile=False"), f"<{name}>"
        # as a notebook does: the source of a model's functions is read again
        linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
        exec(compile(text, place, "exec"), scope)
    assert {"heater", "thermostat", "room", "drag"} <= scope.keys()

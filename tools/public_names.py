"""The public names that docs/stability.md promises to keep: ``python -m tools.public_names``.

The command writes tests/project/public_names.toml anew.  A name that it takes from the list must
have been deprecated before.
"""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests/project/public_names.toml"
Names = dict[str, list[str]]
"""The names of each package, of ``commands`` and of ``entry points``, each in order."""


def public_packages() -> list[str]:
    """rtsim, and each package that a page of docs/api shows and that has ``__all__``."""
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs/api").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"^::: (\S+)$", page, re.M)}
    packages = {name for name in shown if (ROOT / name.replace(".", "/") / "__init__.py").is_file()}
    return sorted(name for name in packages | {"rtsim"} if hasattr(import_module(name), "__all__"))


def public_names() -> Names:
    """The public names of this checkout."""
    from rtsim.cli.main import known_commands

    names = {name: sorted(import_module(name).__all__) for name in public_packages()}
    commands = known_commands().items()
    ours = [name for name, place in commands if place.startswith(("rtsim.", "hitl."))]
    return {**names, "commands": sorted(ours), "entry points": entry_point_groups()}


def entry_point_groups() -> list[str]:
    """The groups of entry points that rtsim and hitl read: ``"rtsim.NAME"`` that is no package."""
    records = {"header", "footer"}  # of a recording
    texts = (
        path.read_text(encoding="utf-8")
        for part in ("rtsim", "hitl")
        for path in (ROOT / part).rglob("*.py")
    )
    found = {name for text in texts for name in re.findall(r'"rtsim\.([a-z_]+)"', text)}
    return sorted(
        f"rtsim.{name}" for name in found - records if not (ROOT / "rtsim" / name).exists()
    )


def listed() -> Names:
    """The public names that the list has."""
    return tomllib.loads(LIST.read_text(encoding="utf-8"))


def missing(wanted: Names, found: Names) -> list[str]:
    """``PACKAGE: NAME`` for each name of ``wanted`` that ``found`` lacks."""
    rows = ((place, name) for place, names in wanted.items() for name in names)
    return [f"{place}: {name}" for place, name in rows if name not in found.get(place, [])]


def written(names: Names) -> str:
    """The text of the list."""
    out = ["# Public names: docs/stability.md says how a name goes.  python -m tools.public_names"]
    for place, found in names.items():
        out += [f'"{place}" = [', *(f'    "{name}",' for name in found), "]"]
    return "\n".join(out) + "\n"


@click.command()
def main() -> None:
    """Write the list of public names, and say which names it loses."""
    found = public_names()
    gone = missing(listed(), found) if LIST.exists() else []
    LIST.write_text(written(found), encoding="utf-8")
    click.echo(f"written: {LIST}")
    for name in gone:
        click.echo(f"no longer there: {name}: was it deprecated? (docs/stability.md)")


if __name__ == "__main__":
    main()

"""Wheels that tests build without a network and without a build backend: a wheel is a zip file."""

from __future__ import annotations

import tomllib
import zipfile
from pathlib import Path
from typing import Any

_SHIPPED = (".py", ".c", ".h")
_WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel(source: Path, into: Path) -> Path:
    """The wheel of the package at ``source``, from the name, packages and entry points of its
    ``pyproject.toml``."""
    with (source / "pyproject.toml").open("rb") as file:
        data: dict[str, Any] = tomllib.load(file)
    project = data["project"]
    stem = f"{project['name'].replace('-', '_')}-{project['version']}"
    about = f"{stem}.dist-info"
    files = {
        path.relative_to(source).as_posix(): path.read_text(encoding="utf-8")
        for package in data["tool"]["setuptools"]["packages"]
        for path in sorted((source / package).rglob("*.*"))
        if path.suffix in _SHIPPED
    }
    files[f"{about}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    files[f"{about}/WHEEL"] = _WHEEL
    files[f"{about}/entry_points.txt"] = entry_points_text(project["entry-points"])
    files[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    wheel = into / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel


def entry_points_text(groups: dict[str, dict[str, str]]) -> str:
    """``entry_points.txt`` from the tables of a ``pyproject.toml``."""
    lines = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), ""]
    return "\n".join(lines)

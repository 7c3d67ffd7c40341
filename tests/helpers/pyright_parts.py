"""pyright as a checker and as a language server, in an environment with rtsim of this checkout."""

from __future__ import annotations

import json
import shutil
import site
import subprocess
import sys
import sysconfig
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from hitl.boards.emulators import find_node

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("rtsim", "hitl", "firmware", "LICENSES")
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "REUSE.toml")
_BUILD = "import sys, setuptools.build_meta as b; getattr(b, 'build_' + sys.argv[1])(sys.argv[2])"
_PATIENCE_S = 600


def environment_with_rtsim(folder: Path, how: str) -> Path:
    """Return the Python of a new environment in ``folder``.

    ``how``: ``"wheel"`` for a normal installation, ``"editable"`` for one that uses the source.
    """
    tree, place, made = folder / "tree", folder / "env", folder / "made"
    tree.mkdir(parents=True)
    made.mkdir()
    for part in PARTS:
        shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copy(ROOT / file, tree)
    built = subprocess.run(
        [sys.executable, "-c", _BUILD, how, str(made)], cwd=tree, capture_output=True, text=True,
        timeout=_PATIENCE_S,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr[-2000:]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    inside = sysconfig.get_paths("venv", vars={"base": str(place), "platbase": str(place)})
    with zipfile.ZipFile(next(made.iterdir())) as wheel:
        wheel.extractall(inside["purelib"])
    paths = dict.fromkeys([sysconfig.get_paths()["purelib"], *_site_packages()])
    Path(inside["purelib"], "dependencies.pth").write_text("\n".join(paths) + "\n")
    python = shutil.which("python", path=inside["scripts"])
    assert python is not None
    return Path(python)


def _site_packages() -> list[str]:
    return [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")] or (
        site.getsitepackages()
    )


def script(name: str) -> list[str]:
    """Return the command of pyright's program ``name``: ``index.js`` or ``langserver.index.js``."""
    package = find_spec("pyright")
    assert package is not None
    assert package.origin is not None
    return [str(find_node()), str(Path(package.origin).parent / "dist" / name)]


def findings(folder: Path, python: Path, mode: str = "strict") -> list[str]:
    """Return what pyright says in a mode about the programs of ``folder``, a line each."""
    (folder / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": mode, "pythonVersion": "3.11"})
    )
    done = subprocess.run(
        [*script("index.js"), "--outputjson", "--pythonpath", str(python), "-p", str(folder)],
        capture_output=True, text=True, timeout=_PATIENCE_S, cwd=folder,
    )  # fmt: skip
    said = json.loads(done.stdout)
    assert said["summary"]["filesAnalyzed"] == len(list(folder.glob("*.py"))), said
    return [
        f"{Path(one['file']).name}:{one['range']['start']['line'] + 1}: {one['message']}"
        for one in said["generalDiagnostics"]
    ]


class LanguageServer:
    """pyright's language server, as an editor starts it, for the programs of ``folder``."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder, self.python, self.count = folder, python, 0

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [*script("langserver.index.js"), "--stdio"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=self.folder,
        )  # fmt: skip
        place = self.folder.as_uri()
        self._ask(
            "initialize",
            processId=None,
            rootUri=place,
            workspaceFolders=[{"uri": place, "name": "programs"}],
            capabilities={"workspace": {"configuration": True, "workspaceFolders": True}},
        )
        self._send(method="initialized", params={})
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def completions(self, text: str) -> set[str]:
        """Return the names that an editor offers at the end of the program ``text``."""
        self.count += 1
        uri = (self.folder / f"edited_{self.count}.py").as_uri()
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self._send(method="textDocument/didOpen", params={"textDocument": document})
        lines = text.split("\n")
        found = self._ask(
            "textDocument/completion",
            textDocument={"uri": uri},
            position={"line": len(lines) - 1, "character": len(lines[-1])},
        )
        items = found["items"] if isinstance(found, dict) else found or []
        return {item["label"] for item in items}

    def _ask(self, method: str, **params: Any) -> Any:
        self.count += 1
        number = self.count
        self._send(id=number, method=method, params=params)
        while True:
            message = self._read()
            if message.get("id") == number and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            if "id" in message:  # a question of the server
                self._send(id=message["id"], result=self._answer(message))

    def _answer(self, message: dict[str, Any]) -> Any:
        if message["method"] != "workspace/configuration":
            return None
        settings = {"python": {"pythonPath": str(self.python)}}
        return [settings.get(item.get("section"), {}) for item in message["params"]["items"]]

    def _send(self, **message: Any) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self.process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        size = 0
        while line := self.process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        assert size, "the language server ended"
        message: dict[str, Any] = json.loads(self.process.stdout.read(size))
        return message

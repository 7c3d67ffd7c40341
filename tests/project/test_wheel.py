"""The wheel and the sdist: complete, with a licence for each file, and of use once installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from firmware_parts import ROOT, with_avr_gcc

from hitl.boards.known import board_named
from hitl.firmware import firmware
from hitl.firmware.firmware import CORE_SOURCES, FOLDER, NOTICE, manifest
from hitl.firmware.shipping import core_sources

PARTS = ("rtsim", "hitl", "firmware", "LICENSES")
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "REUSE.toml")
SOURCE_TEXTS = {".frag", ".glsl", ".vert",
    "", ".c", ".cjs", ".cpp", ".csv", ".h", ".ini", ".ino", ".js", ".json", ".ld", ".md",
    ".properties", ".py", ".toml", ".txt", ".typed",
}  # fmt: skip
"""Suffixes of files that a person can read and change; each other file needs a stated licence."""
_PATIENCE_S = 600
_BUILD = "import sys, setuptools.build_meta as b; getattr(b, 'build_' + sys.argv[1])(sys.argv[2])"


@dataclass(frozen=True)
class Built:
    """A copy of the source tree, and what setuptools makes of it."""

    tree: Path
    unpacked: Path
    """The contents of the sdist."""
    wheel: Path
    """Made of the tree."""
    again: Path
    """Made of the sdist."""


def _build(what: str, source: Path, into: Path) -> Path:
    into.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, what, str(into)], cwd=source, capture_output=True,
        text=True, timeout=_PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    (made,) = into.iterdir()
    return made


def _unpack(archive: Path, into: Path) -> None:
    """Write the files of ``archive`` without its topmost folder."""
    with tarfile.open(archive) as opened:
        for member in opened:
            if (file := opened.extractfile(member)) is not None:
                path = into.joinpath(*Path(member.name).parts[1:])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.read())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("wheel")
    tree, unpacked = folder / "tree", folder / "unpacked"
    tree.mkdir()
    for part in PARTS:
        shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copy(ROOT / file, tree)
    _unpack(_build("sdist", tree, folder / "sdist"), unpacked)
    wheel = _build("wheel", tree, folder / "made")
    return Built(tree, unpacked, wheel, _build("wheel", unpacked, folder / "again"))


def _files(folder: Path, parts: tuple[str, ...] = PARTS) -> dict[str, bytes]:
    """Return the contents of each file by its path; programs of the compilers' tests are left."""
    paths = [path for part in parts for path in (folder / part).rglob("*") if path.is_file()]
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    return {name: data for name, data in found.items() if not name.endswith(".pyc")}


def _wheel(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"}


def _in_the_wheel(name: str) -> str | None:
    """Return the place in a wheel of the file ``name`` of the tree; ``None`` if it has none."""
    part, _, rest = name.partition("/")
    if part == "LICENSES" or name in ("LICENSE", "REUSE.toml"):
        return f"licenses/{name}"
    if part != "firmware":
        return name if part in ("rtsim", "hitl") else None
    return None if rest.startswith("tests/") or rest.endswith(".md") else f"hitl/firmware/c/{rest}"


def test_the_wheel_has_each_file_of_the_packages_and_nothing_else(built: Built) -> None:
    made = {re.sub(r"^rtsim-[^/]*\.dist-info/", "", k): v for k, v in _wheel(built.wheel).items()}
    tree = _files(built.tree) | {name: (built.tree / name).read_bytes() for name in FILES}
    wanted = {place: data for name, data in tree.items() if (place := _in_the_wheel(name))}
    assert not wanted.keys() - made.keys()
    about = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt"}
    assert made.keys() - wanted.keys() == about
    assert all(made[name] == data for name, data in wanted.items())
    assert "hitl/protocol/messages.toml" in made
    assert "hitl/building/c/arduino/avr/pgmspace.h" in made
    assert {"hitl/programs/c/virtual_time.h", "hitl/programs/betaflight.toml"} <= set(made)


def test_the_sdist_has_each_file_and_makes_the_same_wheel(built: Built) -> None:
    assert _files(built.unpacked) == _files(built.tree)
    made, again = _wheel(built.wheel), _wheel(built.again)
    assert made.keys() == again.keys()
    assert [name for name in made if made[name] != again[name]] == []


# Licences


def _pattern(glob: str) -> re.Pattern[str]:
    """Return the pattern of a path of REUSE.toml: ``*`` does not match a slash, ``**`` does."""
    parts = re.split(r"(\*\*|\*)", glob)
    words = {"**": ".*", "*": "[^/]*"}
    return re.compile("".join(words.get(part) or re.escape(part) for part in parts) + r"\Z")


def _annotations(text: str) -> list[tuple[list[str], str]]:
    """Return globs and licence of each annotation."""
    rows: list[dict[str, Any]] = tomllib.loads(text)["annotations"]
    found = []
    for row in rows:
        path = row["path"]
        found.append(([path] if isinstance(path, str) else path, row["SPDX-License-Identifier"]))
    return found


def licence_of(name: str, text: str) -> str:
    """Return the licence of a file by the text of REUSE.toml; "" if only ``**`` matches a file that
    is no source text."""
    globs, licence = next(
        (globs, licence)
        for globs, licence in reversed(_annotations(text))
        if any(_pattern(glob).match(name) for glob in globs)
    )
    return "" if globs == ["**"] and Path(name).suffix not in SOURCE_TEXTS else licence


def _identifiers(licence: str) -> set[str]:
    return set(re.split(r" AND | WITH | OR ", licence))


REUSE = (ROOT / "REUSE.toml").read_text(encoding="utf-8")


def test_each_file_that_is_no_source_text_has_a_stated_licence(built: Built) -> None:
    files = _files(built.tree)
    without = [name for name in files if not licence_of(name, REUSE)]
    assert without == [], "state the licence in REUSE.toml"
    odd = [
        name for name, data in files.items()
        if b"\0" in data and Path(name).suffix in SOURCE_TEXTS
    ]  # fmt: skip
    assert odd == [], "a file of source text that holds a NUL byte is no source text"


@pytest.mark.parametrize("name", ["rtsim/pilot/click.wav", "hitl/rigs/new/new.elf", "rtsim/a.wasm"])
def test_a_new_binary_without_a_stated_licence_is_found(name: str) -> None:
    assert licence_of(name, REUSE) == ""
    stated = f'[[annotations]]\npath = "{name}"\nSPDX-License-Identifier = "CC0-1.0"\n'
    assert licence_of(name, REUSE + stated) == "CC0-1.0"


def test_each_licence_has_its_text_and_is_in_the_metadata(built: Built) -> None:
    used = set().union(*(_identifiers(licence) for _, licence in _annotations(REUSE)))
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "LICENSES").iterdir()}
    assert texts.keys() == used
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in texts["LGPL-2.1-or-later"]
    assert "The Regents of the University of California" in texts["BSD-3-Clause"]
    metadata = next(v for k, v in _wheel(built.wheel).items() if k.endswith("/METADATA")).decode()
    (expression,) = re.findall(r"^License-Expression: (.*)$", metadata, re.M)
    assert _identifiers(expression) == used


def test_an_image_states_the_licences_of_the_libraries_in_it() -> None:
    notice = NOTICE.read_text(encoding="utf-8")
    for image in manifest():
        compiler = board_named(image.board).compiler
        licence = licence_of(f"hitl/firmware/images/{image.file}", REUSE)
        assert ("LGPL-2.1-or-later" in licence) == (compiler.core is not None), image.file
        assert ("BSD-3-Clause" in licence) == (not compiler.package), image.file
        version = image.compiler.split()[-1]
        assert f" {version} " in notice, f"NOTICE.md does not name {image.compiler}"
    assert {path.name for path in FOLDER.iterdir()} == {
        *(image.file for image in manifest()), "manifest.json", NOTICE.name, CORE_SOURCES.name,
    }  # fmt: skip


@with_avr_gcc
def test_the_shipped_sources_of_the_core_make_the_images_again(tmp_path: Path) -> None:
    """A user can change the core and link an image again, as its licence wants."""
    core = tmp_path / "core"
    _unpack(CORE_SOURCES, core)
    built_from = {name: path.read_bytes() for name, path in core_sources().items()}
    assert _files(core, ("cores", "variants")) == built_from, "run python -m hitl.firmware.shipping"
    shipped = firmware("firmware/core/pid.toml:single")
    assert shipped.prebuilt

    def relinked(core: Path) -> bytes:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RTSIM_ARDUINO_AVR", str(core))
            made = firmware("firmware/core/pid.toml:single", build=True)
        if made.compiler != next(i.compiler for i in manifest() if i.path == shipped.path):
            pytest.skip(f"the image was built by another compiler than {made.compiler}")
        return made.path.read_bytes()

    assert relinked(core) == shipped.path.read_bytes()
    source = core / "cores" / "arduino" / "wiring.c"
    text = source.read_text(encoding="utf-8")
    changed = text.replace("timer0_millis = m;", "timer0_millis = m + 1000;")
    assert changed != text
    source.write_text(changed, encoding="utf-8")
    assert relinked(core) != shipped.path.read_bytes()


# Installed


@dataclass(frozen=True)
class Installed:
    """An environment with rtsim's wheel, and a folder that is far from the checkout."""

    commands: Path
    away: Path

    def environment(self) -> dict[str, str]:
        dropped = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"}
        kept = {key: value for key, value in os.environ.items() if key not in dropped}
        path = os.pathsep.join((str(self.commands), kept["PATH"]))
        return kept | {"PATH": path, "RTSIM_RUNTIME_DIR": str(self.away)}

    def program(self, name: str) -> str:
        found = shutil.which(name, path=str(self.commands))
        assert found is not None, f"the wheel has no command {name}"
        return found

    def says(self, *words: str, path: bool = True) -> str:
        """Return what ``rtsim WORDS`` prints, with or without the programs of the system."""
        done = subprocess.run(
            [self.program("rtsim"), *words], cwd=self.away,
            env=self.environment() | ({} if path else {"PATH": ""}),
            capture_output=True, text=True, timeout=_PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The dependencies are those of this environment; its editable rtsim is not in reach."""
    folder = tmp_path_factory.mktemp("installed")
    place, away = folder / "env", folder / "away"
    away.mkdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    inside = sysconfig.get_paths("venv", vars={"base": str(place), "platbase": str(place)})
    packages = sysconfig.get_paths()["purelib"]
    Path(inside["purelib"], "dependencies.pth").write_text(f"{packages}\n", encoding="utf-8")
    python = shutil.which("python", path=inside["scripts"])
    assert python is not None
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index"]
    quick = ["--no-compile", "--disable-pip-version-check", "--quiet", "--no-warn-script-location"]
    done = subprocess.run([*pip, *quick, str(built.again)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return Installed(Path(inside["scripts"]), away)


@pytest.mark.long
def test_the_installed_packages_are_those_of_the_wheel(installed: Installed) -> None:
    code = "import rtsim, hitl; print(rtsim.__file__); print(hitl.__file__)"
    done = subprocess.run(
        [installed.program("python"), "-c", code], cwd=installed.away, capture_output=True,
        text=True, env=installed.environment(),
    )  # fmt: skip
    for path in done.stdout.splitlines():
        assert installed.commands.parent in Path(path).parents, done.stdout
        assert ROOT not in Path(path).parents


def test_installed_it_runs_a_scenario_and_reports(installed: Installed) -> None:
    """A plant with guards would take a minute: their code is compiled once for each place."""
    said = installed.says("run", "orbit", "--engine", "compiled", "--until", "1", "-o", "moon.mcap")
    assert "recording: moon.mcap" in said
    assert "report: moon.html" in installed.says("report", "moon.mcap", "-o", "moon.html")
    page = (installed.away / "moon.html").read_text(encoding="utf-8")
    assert "uPlot" in page
    assert "bit for bit" in installed.says("replay", "moon.mcap")


@pytest.mark.long
def test_installed_it_tests_a_controller_in_c(installed: Installed) -> None:
    installed.says("sil", "init", "motor")
    said = installed.says(
        "sil", "test", "motor/scenario.py", "-c", "motor/motor.toml", "--open-only", "--until", "1"
    )
    assert "motor: the C does what its reference model does, in open loop" in said


@pytest.mark.long
def test_installed_it_tests_an_arduino_sketch_and_exports_it(installed: Installed) -> None:
    installed.says("sil", "init", "arduino", "--example", "arduino")
    said = installed.says(
        "sil", "test", "arduino/scenario.py:room", "-c", "arduino/thermostat.toml", "--open-only"
    )
    assert "room: the C does what its reference model does" in said
    said = installed.says("board", "export", "arduino/thermostat.toml", "sketches")
    assert "not compiled; next: open" in said
    exported = {path.name for path in (installed.away / "sketches").rglob("*")}
    assert {"thermostat.ino", "rtsim_sketch.h", "rtsim_arduino.cpp", "rtsim.cpp"} <= exported


def test_installed_it_finds_its_own_firmware_without_a_compiler(installed: Installed) -> None:
    said = installed.says("board", "build", "firmware/core/f16_control.toml:single", path=False)
    assert "ships with rtsim" in said
    assert f"image: {installed.commands.parent}" in said


@pytest.mark.long
@pytest.mark.usefixtures("emulator")
def test_installed_it_runs_a_controller_on_an_emulated_board(installed: Installed) -> None:
    """The image ships; no compiler for AVR is needed."""
    installed.says("sil", "init", "board", "--example", "arduino")
    said = installed.says(
        "pitl", "board/scenario.py:room", "-c", "board/thermostat.toml", "--latency", "0.005"
    )
    assert "the board does what the host C does" in said
    said = installed.says("board", "build", "board/thermostat.toml", "-o", "built")
    assert "ships with rtsim" in said
    assert (installed.away / "built" / "thermostat" / NOTICE.name).read_bytes() == (
        NOTICE.read_bytes()
    )


@pytest.mark.long
def test_installed_it_runs_a_study(installed: Installed) -> None:
    said = installed.says(
        "study", "start", "orbit", "--result", "x=max:moon.x", "--runs", "3", "-o", "study"
    )
    assert "3 of 3 runs" in said
    assert "x: mean" in said


@pytest.mark.long
@pytest.mark.live
def test_installed_it_shows_a_recording_in_the_browser(installed: Installed) -> None:
    pytest.importorskip("viser")
    installed.says("run", "orbit", "--until", "1", "-o", "orbit.mcap")
    with subprocess.Popen(
        [installed.program("rtsim"), "web", "orbit.mcap"], cwd=installed.away,
        env=installed.environment(), stdout=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        try:
            assert server.stdout is not None
            address = server.stdout.readline().removeprefix("web page: ").strip()
            with urlopen(address, timeout=60) as page:
                assert b"<html" in page.read().lower()
        finally:
            server.terminate()

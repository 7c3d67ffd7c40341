"""Build sdist and wheel, and use each in an empty environment: ``python -m tools.packages``.

Each archive is installed with pip into an environment of its own, far from the checkout: with the
oldest and with the newest Python of this machine that rtsim runs on.  First comes the base, where
examples run, and commands that need an extra must name it.  Then the extras are installed as these
commands say, and one example of each kind runs.

``--only wheel`` or ``--only sdist`` tries one of them; ``--python PROGRAM`` takes another Python.
The exit status is 0 only if each example ran and did what it should.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import click

from tools.newest import NEWEST, OLDEST, candidates, suitable, version_of

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
EXTRAS = "plots,sil,pitl,study,data,draw,gym"
OTHERS = ("ipykernel", "nbconvert", "pytest")
"""Packages that examples use and that belong to no extra."""
_PATIENCE_S = 1800.0
PASSED, FAILED, NOT_TRIED = "passed", "FAILED", "not tried"


@dataclass(frozen=True)
class Example:
    """Commands of one kind, and a text that the last one prints."""

    kind: str
    commands: tuple[str, ...]
    says: str
    status: int = 0
    """Exit status of the last command."""
    after: str = ""
    """The kind of example whose files these commands use."""
    system: bool = False
    """With the programs of the system; without, only those that pip has installed are on PATH."""
    needs: tuple[str, ...] = ()
    """Programs of the system; without one of them, the example cannot be tried."""


def refused(what: str, command: str, extra: str, after: str = "") -> Example:
    """A command that ends, because it needs ``extra``, and says so."""
    return Example(f"{what} names its extra", (command,), f"'rtsim[{extra}]'", 2, after)


CART, MOTOR = "a class of a plant, and a controller", "a controller in C"
SKETCH = "an Arduino sketch"
STUDY = (
    "rtsim study start cart.py --factor delay=range:0,0.4 --result left=max_abs:cart.x "
    "--runs 10 --workers 0 -o study"
)
SIL_TEST = "rtsim sil test motor/scenario.py -c motor/motor.toml"
BASE: tuple[Example, ...] = (
    Example(CART, ("rtsim run cart.py -o cart.mcap",), "recording: cart.mcap"),
    Example("a replay", ("rtsim replay cart.mcap",), "bit for bit", after=CART),
    Example("a model of functions", ("python functions.py",), "speed after 1 s: 4.8 m/s"),
    Example("the tutorial", ("rtsim run pendulum.py -o plain.mcap", "python tutorial.py"), ""),
    Example("an installed scenario", ("rtsim run f16 --until 2 --no-record",), "f16: 2 s in"),
    Example(
        "the firmware that ships",
        ("rtsim board build firmware/core/f16_control.toml:single",),
        "ships with rtsim",
    ),
    Example("files to start from", ("rtsim sil init motor",), "next: cd motor"),
    refused("a page", "rtsim report cart.mcap", "plots", CART),
    refused("a study", STUDY, "study"),
    refused("C without a compiler", SIL_TEST, "sil", "files to start from"),
    refused("an emulated board without Node", "rtsim board install", "pitl"),
    refused("a Parquet file", "rtsim export cart.mcap -o cart.parquet", "data", CART),
    refused("a drawing", "rtsim draw cart.py -o cart.svg", "draw"),
    refused("a window", "rtsim fly f16 --until 1", "pilot"),
    refused("a page in the browser", "rtsim web cart.mcap", "web", CART),
    refused("a CAN bus", "rtsim bus listen can://virtual/x --for 1", "can"),
)
"""What the base can do, and what its commands say that cannot."""
WITH_EXTRAS: tuple[Example, ...] = (
    Example("a page", ("rtsim report cart.mcap -o cart.html",), "report: cart.html", after=CART),
    Example("a study", (STUDY,), "10 of 10 runs"),
    Example(MOTOR, (SIL_TEST,), "the C does what its reference model does"),
    Example(
        "the same C with the compiler of the system",
        ("rtsim sil check motor/motor.toml", SIL_TEST),
        "the C does what its reference model does",
        after=MOTOR,
        system=True,
        needs=("cc", "gcc", "clang"),
    ),
    Example("tests with pytest", ("python -m pytest motor",), "3 passed", after=MOTOR),
    Example(
        "stimuli",
        ("rtsim sil generate motor/scenario.py -c motor/motor.toml --until 1",),
        "4 of 4 branches",
        after=MOTOR,
    ),
    Example(
        SKETCH,
        (
            "rtsim sil init arduino --example arduino",
            "rtsim sil test arduino/scenario.py:room -c arduino/thermostat.toml --open-only",
        ),
        "the C does what its reference model does",
        system=True,  # zig compiles its library of C++ first, which takes minutes
    ),
    Example(
        "a sketch to upload",
        ("rtsim board export arduino/thermostat.toml sketches",),
        "not compiled; next: open",
        after=SKETCH,
    ),
    Example(
        "an emulated board",
        (
            "rtsim board install",
            "rtsim pitl arduino/scenario.py:room -c arduino/thermostat.toml --latency 0.005",
        ),
        "and the board does what the host C does",
        after=SKETCH,
        system=True,
    ),
    Example("a run in steps, and Gymnasium", ("python stepping.py",), ""),
    Example(
        "the notebook",
        ("python -m nbconvert --execute --to html first_run.ipynb",),
        "first_run.html",
    ),
)
"""One of each kind that an extra brings."""
FUNCTIONS = """
loop = rt.Scenario("sled", until=1)
loop.plant("sled", sled, step=0.01, inputs={"force": 0.0})
print(f"speed after 1 s: {rt.simulate(loop).sled.speed[-1]:.1f} m/s")
"""
"""How the model of docs/scenario.md is run."""


def code(page: str) -> tuple[dict[str, str], list[str]]:
    """Return the files that ``page`` of the docs names, and the other blocks of Python."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^```python(?: file=(\S+))?\n(.*?)^```", text, re.M | re.S)
    return {name: body for name, body in found if name}, [body for name, body in found if not name]


def inputs() -> dict[str, str]:
    """The files that the examples need, by name; all come from the documentation."""
    made = {"functions.py": code("docs/scenario.md")[1][0] + FUNCTIONS}
    for page in ("README.md", "docs/tutorial.md", "docs/stepping.md"):
        named, others = code(page)
        made |= named | {f"{Path(page).stem}.py": "\n".join(others)}
    notebook = ROOT / "docs/notebooks/first_run.ipynb"
    return made | {notebook.name: notebook.read_text(encoding="utf-8")}


def build() -> None:
    """Make the sdist, and the wheel from the sdist, in ``dist/``; what was there is removed."""
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT)], check=True)
    subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, DIST.iterdir())], check=True
    )


def archives() -> dict[str, Path]:
    """Return the sdist and the wheel in ``dist/``, the files that a release publishes.

    Raises :class:`click.ClickException` unless there is one of each, and no other file.
    """
    found = sorted(DIST.iterdir()) if DIST.is_dir() else []
    by_kind = {"sdist": ".tar.gz", "wheel": ".whl"}
    chosen = {
        kind: path for kind, suffix in by_kind.items() for path in found
        if path.name.endswith(suffix)
    }  # fmt: skip
    if len(chosen) != len(by_kind) or len(found) != len(by_kind):
        names = ", ".join(path.name for path in found) or "no file"
        raise click.ClickException(
            f"{DIST} has {names}; expected one sdist and one wheel: type python -m tools.packages"
        )
    return chosen


def environment(place: Path, away: Path, system: bool = False) -> dict[str, str]:
    """Variables for programs of the environment at ``place``; the checkout is out of reach.

    Without ``system`` the programs of the system, such as compilers, are out of reach as well.
    """
    dropped = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME", "RTSIM_CACHE_DIR"}
    kept = {key: value for key, value in os.environ.items() if key not in dropped}
    path = [str(place / ("Scripts" if os.name == "nt" else "bin"))]
    own = {
        "RTSIM_CACHE_DIR": str(away / "cache"), "RTSIM_RUNTIME_DIR": str(away),
        "IPYTHONDIR": str(away / "ipython"),
        **{f"JUPYTER_{what}_DIR": str(away / what) for what in ("CONFIG", "DATA", "RUNTIME")},
        "PATH": os.pathsep.join([*path, kept["PATH"]] if system else path),
    }  # fmt: skip
    return kept | own


@dataclass
class Trial:
    """One archive in one environment, and what came of each example."""

    name: str
    python: Path
    archive: Path
    extras: str
    outcomes: dict[str, str] = field(default_factory=dict)
    """What came of each example, by its kind."""

    def tell(self, text: str) -> None:
        click.echo(textwrap.indent(text, f"{self.name}: "))

    def run(self) -> None:
        """Install the base, then the extras, and run the examples of both."""
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="rtsim-packages-") as name:
            place, away = Path(name, "env"), Path(name, "away")
            away.mkdir()
            for file, text in inputs().items():
                (away / file).write_text(text, encoding="utf-8")
            done = _run([str(self.python), "-m", "venv", str(place)], away, dict(os.environ))
            if done.returncode:
                self.tell(f"{FAILED}: no environment\n{done.stdout}")
            parts = [([str(self.archive)], BASE)]
            if self.extras:
                parts.append(([f"rtsim[{self.extras}]", *OTHERS], WITH_EXTRAS))
            for wanted, examples in parts:
                installed = not done.returncode and self._install(place, away, wanted)
                for example in examples:
                    self._try(example, place, away, installed)
        self.tell(f"{counted(self.outcomes)} in {time.monotonic() - begun:.0f} s")

    def _install(self, place: Path, away: Path, wanted: Sequence[str]) -> bool:
        variables = environment(place, away, system=True)
        pip = [_program("python", place, variables), "-m", "pip", "--disable-pip-version-check"]
        begun = time.monotonic()
        quick = ["--quiet", "--no-compile"]  # Python compiles what is imported
        done = _run([*pip, "install", *quick, *wanted], away, variables)
        if done.returncode:
            self.tell(f"{FAILED}: pip install {' '.join(wanted)}\n{done.stdout}")
            return False
        listed = _run([*pip, "list", "--format", "freeze"], away, variables).stdout
        names = [line.replace("==", " ") for line in listed.splitlines() if "==" in line]
        self.tell(
            f"installed: pip install {' '.join(wanted)} in {time.monotonic() - begun:.0f} s\n"
            + textwrap.fill(f"{len(names)} packages: {', '.join(names)}", 100)
        )
        return True

    def _try(self, example: Example, place: Path, away: Path, installed: bool) -> None:
        begun = time.monotonic()
        what, why = PASSED, ""
        if not installed:
            what, why = NOT_TRIED, "nothing was installed"
        elif example.after and self.outcomes.get(example.after) != PASSED:
            what, why = NOT_TRIED, f"it needs the files of: {example.after}"
        elif example.needs and not any(map(shutil.which, example.needs)):
            what, why = NOT_TRIED, f"none of {', '.join(example.needs)} is on PATH"
        elif why := problem(example, place, away):
            what = FAILED
        self.outcomes[example.kind] = what
        text = f"{what}: {example.kind}"
        self.tell(text + (f": {why}" if why else f", {time.monotonic() - begun:.1f} s"))


def problem(example: Example, place: Path, away: Path) -> str:
    """Run the commands of ``example``; return what was wrong, with their output, or ""."""
    variables = environment(place, away, example.system)
    for command in example.commands:
        program, *words = command.split()
        path = _program(program, place, variables)
        if not path:
            return f"the archive brings no command {program}"
        done = _run([path, *words], away, variables)
        last = command == example.commands[-1]
        if done.returncode != (example.status if last else 0):
            return f"{command} has exit status {done.returncode}\n{done.stdout}"
        if last and example.says not in done.stdout:
            return f"{command} does not say {example.says!r}\n{done.stdout}"
    return ""


def _program(name: str, place: Path, variables: Mapping[str, str]) -> str:
    """Return the path of a program that lies in the environment; "" if it has none."""
    found = shutil.which(name, path=variables["PATH"])
    return found if found is not None and place in Path(found).parents else ""


def _run(
    command: Sequence[str], folder: Path, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run ``command``; its error output is part of its output."""
    try:
        return subprocess.run(
            command, cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", timeout=_PATIENCE_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        said = f"{error.output or ''}\nno end after {_PATIENCE_S:.0f} s"
        return subprocess.CompletedProcess(command, -1, said)


def pythons(asked: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Yield version and path of ``asked``, or else of the oldest and the newest Python here."""
    for name in asked:
        path = shutil.which(name)
        version = version_of(Path(path)) if path else None
        if path is None or version is None:
            raise click.ClickException(f"{name} is no Python that makes environments")
        yield "{}.{}".format(*version), Path(path)
    if not asked:
        found = suitable(candidates()) or {sys.version_info[:2]: Path(sys.executable)}
        for version in sorted({min(found), max(found)}):
            yield "{}.{}".format(*version), found[version]


def counted(outcomes: Mapping[str, str]) -> str:
    """Say how many examples passed, and name those that did not."""
    good = sum(what == PASSED for what in outcomes.values())
    others = [f"{what}: {kind}" for kind, what in outcomes.items() if what != PASSED]
    return "; ".join([f"{good} of {len(outcomes)} examples passed", *others])


@click.command()
@click.option("--only", type=click.Choice(["wheel", "sdist"]), help="Try only this archive.")
@click.option(
    "--python", "asked", multiple=True, metavar="PROGRAM",
    help="The Python of the environments; repeatable.  [default: oldest and newest here]",
)  # fmt: skip
@click.option("--extras", default=EXTRAS, show_default=True, help="'' tries the base only.")
@click.option("--built", is_flag=True, help="Take the archives that lie in dist/.")
@click.option("--jobs", default=2, show_default=True, help="Environments at one time.")
def main(only: str | None, asked: tuple[str, ...], extras: str, built: bool, jobs: int) -> None:
    """Build sdist and wheel into dist/, install each into empty environments, and use it."""
    begun = time.monotonic()
    if not built:
        build()
        click.echo(f"built in {time.monotonic() - begun:.0f} s")
    found = archives()
    for path in found.values():
        click.echo(f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")
    chosen = list(pythons(asked))
    trials = [
        Trial(f"{kind}, Python {version}", python, archive, extras)
        for kind, archive in found.items() if only in (None, kind)
        for version, python in chosen
    ]  # fmt: skip
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(Trial.run, trials))
    minutes = (time.monotonic() - begun) / 60
    click.echo(f"\n{', '.join(path.name for path in found.values())}: {minutes:.1f} min")
    for trial in trials:
        trial.tell(counted(trial.outcomes))
    here = [version for version, _ in chosen]
    for version in (OLDEST, NEWEST):
        if not asked and (name := "{}.{}".format(*version)) not in here:
            click.echo(f"no environment with Python {name}: it is neither on PATH nor in pyenv")
    if any(what != PASSED for trial in trials for what in trial.outcomes.values()):
        raise click.ClickException("not each example passed")


if __name__ == "__main__":
    main()

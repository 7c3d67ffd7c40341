"""Build the sdist and the wheel, and use each in an empty environment:  python -m tools.packages

Each archive is installed with pip, with its dependencies, into an environment of its own, far from
the checkout.  There one example of each kind runs.  ``--only wheel`` or ``--only sdist`` tries one
of them; ``--python PROGRAM`` takes another Python for the environments.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
EXTRAS = "plots,sil,pitl,study"
_PATIENCE_S = 1800.0


@dataclass(frozen=True)
class Example:
    """Commands of one kind, and a text that the last one prints."""

    kind: str
    commands: tuple[str, ...]
    says: str


EXAMPLES = (
    Example("a scenario of one's own", ("rtsim run cart.py -o cart.mcap",), "recording: cart.mcap"),
    Example("a replay", ("rtsim replay cart.mcap",), "bit for bit"),
    Example("a page", ("rtsim report cart.mcap -o cart.html",), "report: cart.html"),
    Example("an installed scenario", ("rtsim run f16 --until 2 --no-record",), "f16: 2 s in"),
    Example(
        "a study",
        (
            "rtsim study start cart.py --factor delay=range:0,0.4 --result left=max_abs:cart.x "
            "--runs 10 --workers 0 -o study",
        ),
        "10 of 10 runs",
    ),
    Example(
        "a controller in C",
        ("rtsim sil init motor", "rtsim sil test motor/scenario.py -c motor/motor.toml"),
        "the C does what its reference model does",
    ),
    Example(
        "stimuli",
        ("rtsim sil generate motor/scenario.py -c motor/motor.toml --until 1",),
        "4 of 4 branches",
    ),
    Example(
        "an Arduino sketch",
        (
            "rtsim sil init arduino --example arduino",
            "rtsim sil test arduino/scenario.py:room -c arduino/thermostat.toml --open-only",
        ),
        "the C does what its reference model does",
    ),
    Example(
        "a sketch to upload",
        ("rtsim board export arduino/thermostat.toml sketches",),
        "not compiled; next: open",
    ),
    Example(
        "the firmware that ships",
        ("rtsim board build firmware/core/f16_control.toml:single",),
        "ships with rtsim",
    ),
    Example(
        "an emulated board",
        (
            "rtsim board install",
            "rtsim pitl arduino/scenario.py:room -c arduino/thermostat.toml --latency 0.005",
        ),
        "and the board does what the host C does",
    ),
)


def cart() -> str:
    """``cart.py``, as README.md has it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^```python file=cart.py\n(.*?)^```", text, re.M | re.S)
    assert found is not None
    return found[1]


def build() -> list[Path]:
    """The sdist, and the wheel that is built from it, in ``dist/``; what was there is removed."""
    shutil.rmtree(DIST, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT)], check=True)
    archives = sorted(DIST.iterdir())
    subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, archives)], check=True
    )
    return archives


def environment(place: Path, away: Path) -> dict[str, str]:
    """Variables for programs of the environment at ``place``; the checkout is out of reach."""
    dropped = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME", "RTSIM_CACHE_DIR"}
    kept = {key: value for key, value in os.environ.items() if key not in dropped}
    commands = place / ("Scripts" if os.name == "nt" else "bin")
    path = os.pathsep.join((str(commands), kept["PATH"]))
    caches = {"RTSIM_CACHE_DIR": str(away / "cache"), "RTSIM_RUNTIME_DIR": str(away)}
    return kept | caches | {"PATH": path}


def use(archive: Path, python: str, extras: str, examples: tuple[Example, ...]) -> None:
    """Install ``archive`` into an empty environment and run ``examples`` there.

    Raises :class:`click.ClickException` at the first example that fails, with what it printed.
    """
    with tempfile.TemporaryDirectory(prefix="rtsim-packages-") as name:
        place, away = Path(name, "env"), Path(name, "away")
        away.mkdir()
        (away / "cart.py").write_text(cart(), encoding="utf-8")
        variables = environment(place, away)
        subprocess.run([python, "-m", "venv", str(place)], check=True)
        pip = [shutil.which("python", path=variables["PATH"]) or "python", "-m", "pip", "install"]
        quiet = ["--quiet", "--disable-pip-version-check"]
        wanted = f"{archive}[{extras}]" if extras else str(archive)
        subprocess.run([*pip, *quiet, wanted], check=True, cwd=away, env=variables)
        click.echo(f"{archive.name}: installed")
        for example in examples:
            said = ""
            for command in example.commands:
                program, *words = command.split()
                path = shutil.which(program, path=variables["PATH"])
                if path is None or place not in Path(path).parents:
                    raise click.ClickException(f"{archive.name} brings no command {program}")
                done = subprocess.run(
                    [path, *words], cwd=away, env=variables, capture_output=True, text=True,
                    timeout=_PATIENCE_S,
                )  # fmt: skip
                said = done.stdout + done.stderr
                if done.returncode:
                    raise click.ClickException(f"{archive.name}: {command}\n{said}")
            if example.says not in said:
                raise click.ClickException(
                    f"{archive.name}: {example.commands[-1]} does not say {example.says!r}\n{said}"
                )
            click.echo(f"{archive.name}: {example.kind}: ok")


@click.command()
@click.option("--only", type=click.Choice(["wheel", "sdist"]), help="Try only this archive.")
@click.option("--python", default=sys.executable, help="The Python of the environments.")
@click.option("--extras", default=EXTRAS, show_default=True)
@click.option("--built", is_flag=True, help="Take the archives that lie in dist/.")
def main(only: str | None, python: str, extras: str, built: bool) -> None:
    """Build sdist and wheel into dist/, install each into an empty environment, and use it."""
    archives = sorted(DIST.iterdir()) if built else build()
    suffix = {"wheel": ".whl", "sdist": ".tar.gz", None: ""}[only]
    chosen = [archive for archive in archives if archive.name.endswith(suffix)]
    if not chosen:
        raise click.ClickException(
            f"no {only or 'archive'} in {DIST}; type python -m tools.packages"
        )
    for archive in chosen:
        use(archive, python, extras, EXAMPLES)
    click.echo(
        f"{len(chosen)} of {len(archives)} archives work: {', '.join(a.name for a in chosen)}"
    )


if __name__ == "__main__":
    main()

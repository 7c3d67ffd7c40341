"""Draw the pictures of the results in README.md, each with the commands that README.md shows."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet
from matplotlib import pyplot as plt
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from rich.text import Text

from hitl.contexts import back_to_back

ROOT = Path(__file__).resolve().parents[1]
BLUE, RED, GREY = "#1f5fa8", "#c62828", "#777777"
Save = Callable[[Any, Path], None]
STUDY = (
    "rtsim study start cart.py --factor delay=range:0,0.4 --result 'left=max_abs:cart.x,after=5' "
    "--require 'left<0.1' --runs 2000 -o study"
)


@contextmanager
def folder_with_cart() -> Iterator[Path]:
    """A temporary folder with ``cart.py``, as README.md has it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^```python file=cart.py\n(.*?)^```", text, re.M | re.S)
    assert found is not None
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "cart.py").write_text(found[1], encoding="utf-8")
        yield Path(name)


def said(command: str, folder: Path, status: int = 0) -> str:
    """What ``command`` prints in ``folder``."""
    program, *words = shlex.split(command)
    path = str(Path(sys.executable).with_name(program))
    done = subprocess.run([path, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def save_terminal(console: Console, path: Path, title: str) -> None:
    """Draw what ``console`` recorded as a terminal shows it; no font is fetched from elsewhere."""
    style = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.S)
    console.save_svg(
        str(path),
        title=title,
        theme=DEFAULT_TERMINAL_THEME,
        code_format=style.replace("Fira Code", "monospace"),
        unique_id=path.stem,
    )


def draw_found_bug(path: Path, save: Save) -> None:
    """The run of ``rtsim sil init`` that passes, and a generated stimulus that shows the bug."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        said("rtsim sil init .", folder)
        source = folder / "motor.c"
        source.write_text(source.read_text().replace("wanted < -LIMIT", "wanted < -4 * LIMIT"))
        said("rtsim sil generate scenario.py -c motor.toml --until 1", folder)
        controllers = {"controller": "motor.toml"}
        result = back_to_back("scenario.py", controllers, folder=folder, until=1)
        passed, failed = result.open["controller"], result.stimulated["controller"].loops[0]
        assert passed.first is None
        assert failed.first is not None
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.6), sharey=True, layout="constrained")
    for axis, loop, title in (
        (axes[0], passed, "the simulated run: no difference"),
        (axes[1], failed, "a generated stimulus: C exceeds its limit"),
    ):
        seconds = [step * 0.01 for step in range(len(loop.design))]
        style = {"drawstyle": "steps-post"}
        axis.plot(seconds, loop.design[:, 0], color=BLUE, lw=2.4, label="reference model", **style)
        axis.plot(seconds, loop.translation[:, 0], color=RED, lw=1, label="C", **style)
        axis.set_title(title)
        axis.set_xlabel("time (s)")
        axis.grid(color="#dddddd", linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("voltage (V)")
    axes[0].legend(frameon=False)
    save(figure, path)


def draw_replay(path: Path) -> None:
    """What ``rtsim replay`` and ``rtsim diverge`` print about runs of the cart."""
    commands = (
        ("rtsim replay a.mcap", 0),
        ("rtsim diverge a.mcap b.mcap --no-fly", 1),
    )
    with folder_with_cart() as folder:
        said("rtsim run cart.py --set delay=0.2 -o a.mcap", folder)
        said("rtsim run cart.py --set delay=0.200000001 -o b.mcap", folder)
        console = Console(record=True, width=100, file=io.StringIO(), highlight=False)
        for line, status in commands:
            console.print(Text(f"$ {line}", style="bold"))
            console.print(Text(said(line, folder, status).rstrip()), crop=False)
    save_terminal(console, path, "two runs of the cart, whose delays differ by 1 ns")


def draw_many_runs(path: Path) -> None:
    """The distance left in 2000 runs of the cart, over the delay that each run drew."""
    with folder_with_cart() as folder:
        said(STUDY, folder)
        rows = pyarrow.parquet.read_table(folder / "study/results").sort_by("run")
        delay, left = (rows[name].to_numpy() for name in ("delay", "left"))
    passes = left <= 0.1
    figure, axis = plt.subplots(figsize=(8, 2.8), layout="constrained")
    for kept, color, label in ((passes, BLUE, "meet it"), (~passes, RED, "miss it")):
        count = int(kept.sum())
        axis.scatter(delay[kept], left[kept], s=3, color=color, label=f"{count} runs {label}")
    axis.axhline(0.1, color=GREY, linewidth=0.8, linestyle="--")
    axis.set(yscale="log", xlabel="delay (s)", ylabel="largest distance after 5 s (m)")
    axis.legend(title="requirement: left < 0.1 m", frameon=False, markerscale=3)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_debugging(path: Path) -> None:
    """What ``rtsim debug`` shows of a wrong limit, at the step that violates a requirement."""
    with folder_with_cart() as folder:
        said("rtsim sil init motor", folder)
        source = folder / "motor" / "motor.c"
        text = source.read_text(encoding="utf-8")
        source.write_text(text.replace("wanted < -LIMIT", "wanted < -4 * LIMIT"), "utf-8")
        said("rtsim sil run motor/scenario.py -c motor/motor.toml -o c.mcap", folder)
        typed = ("print *self", "next", "next", "next", "next", "previous-step")
        given = " ".join(f"--command '{command}'" for command in typed)
        shown = said(f"rtsim debug c.mcap --at 1.5 {given}", folder).replace(f"{folder}/", "")
        console = Console(record=True, width=100, file=io.StringIO(), highlight=False)
        console.print(Text("$ rtsim debug c.mcap --at 1.5", style="bold"))
        commands, before = iter(typed), ""
        for line in shown.rstrip().splitlines():
            ends = before[:2].isdigit() or before.startswith("$")
            if ends and (command := next(commands, None)) is not None:
                console.print(Text(f"(gdb) {command}", style="bold"))
            console.print(Text(line), crop=False)
            before = line
    save_terminal(console, path, "the step of a controller that violates a requirement")

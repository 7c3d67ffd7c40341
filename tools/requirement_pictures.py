"""Pictures of docs/requirements.md and docs/falsification.md, from the examples of these pages."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from rtsim.core.tag import NS_PER_S
from rtsim.requirements.verdict import check
from rtsim.scenario.loading import load_scenario
from rtsim.studies.falsification import falsify
from rtsim.studies.shrinking import shrunk
from rtsim.testing.determinism import trace_of

Save = Callable[[Any, Path], None]
DOCS = Path(__file__).resolve().parents[1] / "docs"
BLUE, RED, GREY = "#1f5fa8", "#c62828", "#777777"


@contextmanager
def _folder_of(page: str) -> Iterator[None]:
    """Work in a folder that contains the file ``cart.py`` of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.search(r"^```python file=cart.py\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    with tempfile.TemporaryDirectory() as name, chdir(os.path.realpath(name)):
        Path("cart.py").write_text(found[1], encoding="utf-8")
        yield


def draw_violated(path: Path, save: Save) -> None:
    """Position of the cart without and with a latency of 0.2 s; violated times are shaded."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.0), sharey=True, layout="constrained")
    with _folder_of("requirements.md"):
        for axis, latency in zip(axes, (0.0, 0.2), strict=True):
            loop = load_scenario("cart.py:cart")
            loop.set("pull.compute", latency)
            (settle,) = (one for one in loop.requirements if one.name == "SETTLE")
            recording = trace_of(loop)
            (found,) = check([settle], recording)
            axis.plot(recording.time, recording["cart.x"], color=BLUE, linewidth=1)
            axis.plot([0, 1, 1, 15], [0, 0, 1, 1], color=GREY, linewidth=0.8, linestyle="--")
            axis.axhspan(0.95, 1.05, color=GREY, alpha=0.2, linewidth=0)
            for first, last in found.violated:
                axis.axvspan(first / NS_PER_S, last / NS_PER_S, color=RED, alpha=0.15, linewidth=0)
            verdict = f"SETTLE {found.verdict}, robustness {found.robustness:.3g} m"
            axis.set_title(f"latency {latency:g} s: {verdict}", fontsize=9)
            axis.set_xlabel("time (s)")
            axis.grid(color="#dddddd", linewidth=0.5)
            axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("cart.x (m)")
    save(figure, path)


def draw_smaller(path: Path, save: Save) -> None:
    """Command and speed of the run that a search finds, and of the smaller run."""
    figure, axes = plt.subplots(
        2, 2, figsize=(10, 3.8), sharex=True, sharey="row", layout="constrained"
    )
    with _folder_of("falsification.md"):
        found = falsify(
            "cart.py:cart", {"command": "pieces:8,-1,1"}, requirement="SPEED"
        ).counterexample
        assert found is not None
        small = shrunk(found, {}).counterexample
        for column, (title, one) in zip(
            axes.T, (("found", found), ("made smaller", small)), strict=True
        ):
            loop = load_scenario("cart.py:cart")
            for wave in one.inputs:
                loop.drive(wave.target, wave.changes(one.until_ns))
            until = f"{one.until_ns}/{NS_PER_S}"
            recording = trace_of(loop, until=until)
            column[0].step(
                recording.time, recording["command.wanted"], where="post", color=BLUE, linewidth=1
            )
            column[1].plot(recording.time, recording["cart.v"], color=BLUE, linewidth=1)
            for limit in (-2.0, 2.0):
                column[1].axhline(limit, color=RED, linewidth=0.8)
            points = sum(len(wave.points) for wave in one.inputs)
            column[0].set_title(f"{title}: {points} control points", fontsize=9)
            column[1].set_xlabel("time (s)")
    for axis, label in zip(axes[:, 0], ("command.wanted (m)", "cart.v (m/s)"), strict=True):
        axis.set_ylabel(label)
    for axis in axes.flat:
        axis.grid(color="#dddddd", linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    save(figure, path)

"""Draw the pictures of docs/latency.md:  python -m tools.pictures"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt

from rtsim.models.f16.scenario import scenario
from rtsim.record.reading import Recording
from rtsim.testing.determinism import trace_of

PICTURES = Path(__file__).resolve().parents[1] / "docs/pictures"
LATENCIES_MS = (0, 10, 20, 40)


def tug(latency: float) -> Recording:
    """Stability augmentation alone; the pilot tugs the stick at 1 s."""
    out = scenario(until=10, latency=latency, autopilot_on=False)
    out.at(1.0, "pilot.long_stick", 0.05)
    out.at(1.2, "pilot.long_stick", 0.0)
    return trace_of(out)


def draw_latency(path: Path) -> None:
    """Angle of attack, roll and elevator against time, one column a latency."""
    plt.rcParams.update({"font.size": 9, "svg.hashsalt": "rtsim", "svg.fonttype": "none"})
    rows = (("alpha_deg", "angle of attack"), ("roll_deg", "roll"), ("elevator", "elevator"))
    figure, axes = plt.subplots(3, 4, figsize=(10, 5.4), sharex=True, sharey="row")
    for column, latency in enumerate(LATENCIES_MS):
        recording = tug(latency * 1e-3)
        time = recording.time("f16") / 1e9
        axes[0][column].set_title(f"{latency} ms")
        for row, (signal, label) in enumerate(rows):
            axis = axes[row][column]
            axis.plot(time, recording[f"f16.{signal}"], color="#1f5fa8", linewidth=0.8)
            axis.grid(color="#dddddd", linewidth=0.5)
            axis.spines[["top", "right"]].set_visible(False)
            if column == 0:
                axis.set_ylabel(f"{label} (deg)")
    for axis in axes[2]:
        axis.set_xlabel("time (s)")
    figure.suptitle("F-16 with stability augmentation: a tug at the stick, commands under way for")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    draw_latency(PICTURES / "latency.svg")

"""Draw the picture of the page about small unmanned vehicles: a motor fails, the GPS jumps."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from rtsim import simulate
from rtsim.models.quadcopter_by_hand import scenario

FAULTS = (
    {"name": "jump", "where": "gps.fix_altitude", "kind": "offset", "amount": 15.0, "at": 2.0},
    {"name": "motor_out", "where": "quadcopter.throttle_0", "kind": "stuck", "value": 0.0,
     "at": 6.0},
)  # fmt: skip
MOVES = {
    "arm": [(0.0, 1.0)], "angle": [(0.0, 1.0)], "throttle": [(0.0, 0.57)],
    "roll": [(0.0, 0.0), (3.0, 0.6), (4.0, -0.6), (5.0, 0.0)],
}  # fmt: skip


def draw_drones(path: Path, save: Callable[[Any, Path], None]) -> None:
    """Draw angles, measured rate, rotor speeds and altitudes of one flight of the quadcopter."""
    out = scenario(until=6.6, above=30.0)
    for name, changes in MOVES.items():
        out.drive(f"stick.{name}", [(round(at * 1e9), value) for at, value in changes])
    out.faults(*FAULTS)
    # A reader of the fix: the fault acts on its way to the readers.
    reader = out.sensor("receiver", {"altitude": "gps.fix_altitude"}, period=0.05)
    run = simulate(out, seed=4)
    figure, axes = plt.subplots(2, 2, figsize=(9.0, 4.6), sharex=True, layout="constrained")
    (angle, rate), (speed, height) = axes
    angle.plot(run.time, run["quadcopter.roll"] * 180.0 / math.pi, label="roll")
    angle.plot(run.time, run["stick.roll"] * 45.0, "--", label="command")
    angle.set(ylabel="deg", title="roll angle", ylim=(-40, 60))
    rate.plot(run.time[::3], run["imu.gyro"][::3, 0], linewidth=0.7)
    rate.set(ylabel="rad/s", title="measured roll rate")
    names = ("front right", "rear left", "front left", "rear right")
    for k, name in enumerate(names):
        speed.plot(run.time[::3], run["quadcopter.speed"][::3, k], label=name)
    speed.set(xlabel="time (s)", ylabel="rad/s", title="rotors; front right fails at 6 s")
    height.plot(run.time, run["quadcopter.altitude"], label="true")
    height.step(run.time[50::9], run[f"{reader}.altitude"][50::9], where="post", label="GPS")
    height.set(xlabel="time (s)", ylabel="m", title="altitude; the GPS jumps at 2 s")
    for one in (angle, speed, height):
        one.legend()
    save(figure, path)

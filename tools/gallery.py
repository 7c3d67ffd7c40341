"""Draw the pictures of docs/examples/README.md, each from a run of the example that it shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from hitl.contexts import back_to_back
from rtsim.record.reading import Recording
from rtsim.scenario.loading import load_scenario
from rtsim.testing.determinism import trace_of

EXAMPLES = Path(__file__).resolve().parents[1] / "docs/examples"
BLUE, GREEN, RED, GREY = "#1f5fa8", "#2e7d32", "#c62828", "#999999"
COLOURS = (BLUE, GREEN, RED)
HEIGHT = 1.7
"""Of one plot, in inches."""


def run(example: str, seed: int = 0, **settings: object) -> Recording:
    """The trace of ``docs/examples/EXAMPLE.py``; ``__`` in a name stands for a dot."""
    texts = {name.replace("__", "."): str(value) for name, value in settings.items()}
    return trace_of(load_scenario(str(EXAMPLES / f"{example}.py"), texts), seed=seed)


def rows(*labels: str) -> tuple[Any, list[Any]]:
    """A figure with one plot for each label of a vertical axis, over one time axis in s."""
    size = (8, HEIGHT * len(labels) + 0.4)
    figure, axes = plt.subplots(
        len(labels), 1, figsize=size, sharex=True, layout="constrained", squeeze=False
    )
    for axis, label in zip(axes[:, 0], labels, strict=True):
        axis.set_ylabel(label)
        axis.grid(color="#dddddd", linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel("time (s)")
    return figure, list(axes[:, 0])


def plot(axis: Any, recording: Recording, signal: str, held: bool = False, **style: Any) -> None:
    """Draw a recorded signal against time; ``held`` as steps, from each row to the next."""
    table = recording.table(signal)
    steps = {"drawstyle": "steps-post"} if held else {}
    axis.plot(table.time, table[signal], **{"linewidth": 1, "color": BLUE, **steps, **style})


def legend(axis: Any, title: str | None = None) -> None:
    """Beside the plot, where it hides nothing."""
    axis.legend(title=title, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))


def falling_ball(example: str) -> Any:
    figure, (height, speed) = rows("height (m)", "speed (m/s)")
    for gravity, place, colour in ((9.81, "Earth", BLUE), (1.62, "Moon", GREY)):
        recording = run(example, ball__gravity=gravity)
        plot(height, recording, "ball.height", color=colour, label=place)
        plot(speed, recording, "ball.speed", color=colour)
    legend(height)
    return figure


def sampled_controller(example: str) -> Any:
    figure, (position, command) = rows("position (m)", "command (m/s)")
    for gain, colour in ((5, BLUE), (60, RED)):
        recording = run(example, driver__gain=gain)
        plot(position, recording, "cart.x", color=colour, label=f"{gain}/s")
        plot(command, recording, "cart.speed", True, color=colour)
    position.set_xlim(0, 0.4)
    legend(position, "gain")
    return figure


def latency(example: str) -> Any:
    figure, (position,) = rows("position (m)")
    figure.set_size_inches(8, 2.6)
    for seconds, colour in zip((0, 0.1, 0.35), COLOURS, strict=True):
        plot(position, run(example, latency=seconds), "cart.x", color=colour, label=f"{seconds} s")
    legend(position, "latency")
    return figure


def two_plants(example: str) -> Any:
    figure, (current, speed) = rows("current (A)", "speed (rad/s)")
    recording = run(example)
    plot(current, recording, "coil.current", label="coil: steps of 1 ms")
    plot(speed, recording, "rotor.speed", color=GREEN, marker=".", markersize=4)
    speed.lines[0].set_label("rotor: steps of 10 ms")
    current.set_xlim(0, 0.5)
    legend(current)
    legend(speed)
    return figure


def bouncing_ball(example: str) -> Any:
    figure, (height, speed) = rows("height (m)", "speed (m/s)")
    recording = run(example)
    plot(height, recording, "ball.height")
    plot(speed, recording, "ball.speed")
    return figure


def block_diagram(example: str) -> Any:
    figure, (position,) = rows("position")
    figure.set_size_inches(8, 2.6)
    plot(position, run(example), "loop.setpoint", color=GREY, label="setpoint")
    for gain, colour in ((4, BLUE), (1, GREEN)):
        recording = run(example, loop__amplifier_gain=gain)
        plot(position, recording, "loop.motor", color=colour, label=f"gain {gain}")
    legend(position)
    return figure


def noise(example: str) -> Any:
    figure, (gust, rate) = rows("gust (rad/s²)", "rate (rad/s)")
    for seed, colour in ((1, BLUE), (2, RED)):
        recording = run(example, seed)
        plot(gust, recording, "boat.gust", True, color=colour, linewidth=0.5, label=f"{seed}")
        plot(rate, recording, "boat.rate", color=colour)
    gust.set_xlim(0, 30)
    legend(gust, "seed")
    return figure


def queue(example: str) -> Any:
    figure, (waiting,) = rows("waiting customers")
    figure.set_size_inches(8, 2.4)
    plot(waiting, run(example, seed=1), "shop.waiting", True)
    return figure


def sensor_fault(example: str) -> Any:
    figure, (temperature,) = rows("temperature (°C)")
    figure.set_size_inches(8, 2.6)
    scenario = load_scenario(str(EXAMPLES / f"{example}.py"))
    scenario.faults(str(EXAMPLES / f"{example}.toml"))
    recording = trace_of(scenario)
    began, ended = (event.tag.seconds for event in recording.events)
    temperature.axvspan(began, ended, color="#f3e3e3", label="fault")
    plot(temperature, recording, "sensor.temperature", color=RED, label="measured")
    plot(temperature, recording, "oven.temperature", label="true")
    legend(temperature)
    return figure


def controller_in_c(example: str) -> Any:
    figure, (speed, voltage) = rows("speed (rad/s)", "voltage (V)")
    files = {"regulator": f"{example}.toml"}
    flight = back_to_back(f"{example}.py", files, folder=EXAMPLES).flight
    assert flight is not None
    sides = ((flight.baseline, "reference", BLUE, 3.5), (flight.candidate, "C", "#ffc94d", 1))
    for recording, label, colour, width in sides:
        plot(speed, recording, "motor.speed", color=colour, linewidth=width, label=label)
        plot(voltage, recording, "motor.voltage", True, color=colour, linewidth=width)
    legend(speed)
    return figure


def can_bus(example: str) -> Any:
    figure, (position, waiting) = rows("position (m)", "latency (ms)")
    for others, colour in zip((0, 2, 4), COLOURS, strict=True):
        recording = run(example, others=others)
        plot(position, recording, "cart.x", color=colour, label=str(others))
        track = recording.track("messages/driver")
        sent, arrived = track.integer("completed"), track.integer("arrival")
        waiting.plot(sent / 1e9, (arrived - sent) / 1e6, color=colour, linewidth=1)
    position.set_ylim(-2, 2)
    waiting.set_yscale("log")
    waiting.set_yticks([10, 100, 1000], ["10", "100", "1000"])
    legend(position, "other nodes")
    return figure


DRAWN: dict[str, Callable[[str], Any]] = {
    "01_falling_ball": falling_ball,
    "02_sampled_controller": sampled_controller,
    "03_latency": latency,
    "04_two_plants": two_plants,
    "05_bouncing_ball": bouncing_ball,
    "06_block_diagram": block_diagram,
    "07_noise": noise,
    "08_queue": queue,
    "09_sensor_fault": sensor_fault,
    "10_controller_in_c": controller_in_c,
    "11_can_bus": can_bus,
}


def draw_gallery(folder: Path, save: Callable[[Any, Path], None]) -> None:
    """Draw every example into ``folder``."""
    for example, draw in DRAWN.items():
        save(draw(example), folder / f"{example}.svg")

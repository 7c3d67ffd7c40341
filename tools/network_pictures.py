"""The pictures of docs/networks.md: a loop on four networks, and the latencies of each network."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from rtsim import Recording, Scenario, Signals
from rtsim.components import Ethernet, GilbertElliott, LinBus, TimeDivision, WirelessChannel
from rtsim.core.random_streams import RandomStreams
from rtsim.core.tag import NS_PER_S
from rtsim.scenario.loading import load_scenario
from rtsim.testing.determinism import trace_of

Save = Callable[[Any, Path], None]
ROOT = Path(__file__).resolve().parents[1]
BLUE, GREEN, OCHRE, RED = COLORS = ("#1f5fa8", "#2e7d32", "#b8860b", "#c62828")
NETWORKS = {"ethernet": "Ethernet", "flexray": "FlexRay", "wireless": "wireless", "lin": "LIN"}


def latencies(recording: Recording, name: str) -> np.ndarray:
    """Return the latencies of the messages that arrived, ms."""
    track = recording.track(f"messages/{name}")
    found = np.asarray(track.integer("arrival") - track.integer("completed"), dtype=float)
    return np.asarray(found[track.integer("status") == 0] / 1e6)


def _tidy(*axes: Any) -> None:
    for axis in axes:
        axis.grid(color="#dddddd", linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)


def draw_networks(path: Path, save: Save) -> None:
    """Draw the angle of the page's servo, and the latencies of its messages, on four networks."""
    text = (ROOT / "docs/networks.md").read_text(encoding="utf-8")
    files = re.findall(r"^```(?:python|toml) file=(\S+)\n(.*?)^```", text, re.M | re.S)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files:
            (Path(folder) / name).write_text(content, encoding="utf-8")
        for k, (network, label) in enumerate(NETWORKS.items()):
            settings = {"network": f"{network}.toml"}
            recording = trace_of(load_scenario(f"{folder}/servo.py", settings))
            left.plot(recording.time, recording["servo.angle"], color=COLORS[k], label=label)
            for shift, message, marker in ((-0.15, "encoder", "o"), (0.15, "control", "s")):
                found = latencies(recording, message)
                places = np.full(len(found), k + shift)
                right.plot(places, found, marker, color=COLORS[k], markersize=3, alpha=0.4)
                if k == 0:
                    right.plot([], [], marker, color="#555555", markersize=4, label=message)
    left.set(xlabel="time (s)", ylabel="angle (rad)", ylim=(-0.7, 2.2))
    left.legend(frameon=False)
    right.set_yscale("log")
    right.set_yticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    right.set_xticks(range(4), list(NETWORKS.values()))
    right.set_ylabel("latency (ms)")
    right.legend(frameon=False)
    _tidy(left, right)
    save(figure, path)


def draw_ethernet(path: Path, save: Save) -> None:
    """Draw the latency of a short frame over the load by others, for two priorities."""
    loads = np.linspace(0.0, 0.95, 9)
    figure, axis = plt.subplots(figsize=(7, 3.4), layout="constrained")
    for priority, color in ((0, RED), (7, BLUE)):
        found = [_short_frame(float(load), priority) for load in loads]
        label = f"priority {priority}"
        axis.plot(100 * loads, [max(one) for one in found], color=color, label=f"{label}, longest")
        means = [one.mean() for one in found]
        axis.plot(100 * loads, means, color=color, linestyle="--", label=f"{label}, mean")
    axis.set(xlabel="load of the port by other frames (%)", ylabel="latency (ms)", yscale="log")
    axis.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5, 1], ["0.02", "0.05", "0.1", "0.2", "0.5", "1"])
    axis.minorticks_off()
    axis.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    _tidy(axis)
    save(figure, path)


def _short_frame(load: float, priority: int) -> np.ndarray:
    """Return latencies of frames of 100 bytes, among frames of four stations with this load."""
    net = Ethernet(100_000_000, queue=1000)
    out = Scenario("port", until=1)
    out.source("car", Signals("x [1]"))
    short = net.frame("radar", "computer", priority=priority, length=100)
    out.sensor("short", {"x": "car.x"}, period="1/1009", transport=short)
    stream = RandomStreams(2).stream("offsets")
    busy_ns = 8 * (8 + 1522 + 12) * 10
    for k in range(12 if load else 0):  # many senders with close periods are nearly random
        period = round(12 * busy_ns / load * (1 + 0.01 * stream.uniform(-1, 1)))
        frame = net.frame(f"camera{k}", "computer", priority=0, length=1500)
        out.sensor(
            f"long{k:02}", {"x": "car.x"}, period=f"{period}/{NS_PER_S}",
            offset=f"{int(stream.integers(period))}/{NS_PER_S}", transport=frame,
        )  # fmt: skip
    return latencies(trace_of(out), "short")


def draw_slots(path: Path, save: Save) -> None:
    """Draw the latency over the time of the sample, for a FlexRay slot and a LIN schedule."""
    flexray = TimeDivision.flexray(cycle=0.005, slot=50e-6, count=60)
    lin = LinBus([(0x10, 0.01), (0x11, 0.02), (0x10, 0.01), (0x12, 0.01)])
    cases = (
        (flexray.frame(20), "FlexRay, slot 20 of a cycle of 5 ms", 15),
        (lin.frame(0x10), "LIN, frame twice in a schedule of 50 ms", 100),
    )
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for axis, (frame, title, until_ms) in zip(axes, cases, strict=True):
        times = np.linspace(0, until_ms * 1_000_000, 2000).astype(int)
        computed = [frame.openings(int(ns)) + frame.takes_ns - int(ns) for ns in times]
        axis.plot(times / 1e6, np.array(computed) / 1e6, color=BLUE, label="computed")
        for k in range(45):
            at = round((k + 0.31) * until_ms * 1_000_000 / 45)
            found = _one(frame, at)
            axis.plot(at / 1e6, found / 1e6, "o", color=RED, markersize=3)
        axis.plot([], [], "o", color=RED, markersize=3, label="simulated")
        axis.set(xlabel="time of the sample (ms)", ylabel="latency (ms)", title=title)
        axis.set_ylim(0, 1.3 * max(computed) / 1e6)
        axis.legend(frameon=False, loc="upper right", ncols=2)
    _tidy(*axes)
    save(figure, path)


def _one(frame: Any, at_ns: int) -> int:
    """Return the latency (ns) of one message that is sampled at ``at_ns``."""
    out = Scenario("slots", until=0.2)
    out.source("car", Signals("x [1]"))
    offset = f"{at_ns}/{NS_PER_S}"
    out.sensor("one", {"x": "car.x"}, period=1, offset=offset, transport=frame)
    track = trace_of(out).track("messages/one")
    return int(track.integer("arrival")[0] - track.integer("completed")[0])


def draw_wireless(path: Path, save: Save) -> None:
    """Draw latencies and lost messages over the number of nodes of a wireless channel."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for count, color in ((1, BLUE), (10, GREEN), (20, RED)):
        found = np.sort(_nodes(WirelessChannel(), count)[0])
        share = 100 * np.arange(1, len(found) + 1) / len(found)
        left.plot(found, share, color=color, label="1 node" if count == 1 else f"{count} nodes")
    left.set(xlabel="latency (ms)", ylabel="share of arrived messages (%)", xlim=(0, 30))
    left.legend(frameon=False)
    counts = (1, 4, 8, 12, 16, 20)
    bursts = GilbertElliott(good=0.5, bad=0.05)
    for label, color, channel in (
        ("no acknowledgements", OCHRE, WirelessChannel(acknowledge=False)),
        ("acknowledgements", GREEN, WirelessChannel()),
        ("acknowledgements, bursts of 50 ms", RED, WirelessChannel(bursts=bursts)),
    ):
        lost = [100 * _nodes(channel, count)[1] for count in counts]
        right.plot(counts, lost, "o-", color=color, markersize=3, label=label)
    right.set(xlabel="nodes", ylabel="lost messages (%)", xticks=counts, ylim=(0, None))
    right.legend(frameon=False)
    _tidy(left, right)
    save(figure, path)


def _nodes(channel: WirelessChannel, count: int) -> tuple[np.ndarray, float]:
    """Return latencies (ms) and the share of lost messages of ``count`` nodes."""
    out = Scenario("nodes", until=max(20, 200 / count))
    out.source("car", Signals("x [1]"))
    stream = RandomStreams(4).stream("nodes")
    names = [f"node{k:02}" for k in range(count)]
    for name in names:
        period = round(100_000_000 * (1 + 0.02 * stream.uniform(-1, 1)))
        out.sensor(
            name, {"x": "car.x"}, period=f"{period}/{NS_PER_S}",
            offset=f"{int(stream.integers(period))}/{NS_PER_S}",
            transport=channel.frame(length=16),
        )  # fmt: skip
    recording = trace_of(out)
    lost = [(recording.track(f"messages/{n}").integer("status") == 1).mean() for n in names]
    return np.concatenate([latencies(recording, name) for name in names]), float(np.mean(lost))

"""``rtsim top``: what it draws, and what it does to a real terminal."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from terminal_parts import Terminal

from rtsim.cli.terminal import split
from rtsim.cli.top import Dashboard, histogram, sparkline
from rtsim.gateway.client import Glance, StateTable, connect
from rtsim.timing.frames import CLASSES

RTSIM = [sys.executable, "-m", "rtsim"]
MS = 1_000_000


def glance(k: int, **state: object) -> Glance:
    """The k-th look, 100 ms of wall time and 50 ms of simulated time after the one before."""
    known: dict[str, object] = {
        "ns": 50 * MS * k, "wall_ns": 10**12 + 100 * MS * k, "rate": 0.5, "standing": False,
        "late": 1, "missed": 2, "overruns_compute": 3, "overruns_wake": 4, "margin_ns": -250_000,
        "frames": k, "leg": 1,
    }  # fmt: skip
    counts = [0] * CLASSES
    counts[10], counts[15] = 98, 2
    values = {f"plant.s{n}": float(k * n) for n in range(40)}
    return Glance(StateTable(**{**known, **state}), values, {"link": counts})  # type: ignore[arg-type]


def drawn(shown: Dashboard, width: int = 90, height: int | None = 20, said: str = "") -> list[str]:
    console = Console(width=width, height=height or 100, color_system=None)
    with console.capture() as caught:
        console.print(shown.frame(width, height, said))
    return [line.rstrip() for line in caught.get().splitlines()]


def dashboard(looks: int = 5, **state: object) -> Dashboard:
    shown = Dashboard("loop (7)", {f"plant.s{n}": "m" for n in range(40)})
    for k in range(looks):
        shown.look(glance(k, **state))
    return shown


def test_a_frame_shows_the_state_of_the_run() -> None:
    lines = drawn(dashboard(), said="mark: at 1.000000 s")
    assert lines[0] == "loop (7)   0.200 s    rate 0.5    x0.5 measured"
    assert lines[1] == (
        "slack -0.250 ms   overruns 7 (compute 3, wake 4)   late 1   missed 2   4 frames"
    )
    link = next(line for line in lines if line.startswith("link"))
    assert link.split()[:8] == ["link", "100", "<", "1.02", "ms", "<", "32.8", "ms"]
    heading = next(line for line in lines if line.startswith("latency"))
    assert heading.index("1ms") == link.index("█"), "the class that ends at 1.02 ms"
    assert ["plant.s3", "12", "m", "▁▃▅▇█"] in [line.split() for line in lines]
    assert "mark: at 1.000000 s" in lines
    assert "q end the run" in " ".join(lines)


@pytest.mark.parametrize("width", [30, 60, 100, 200])
@pytest.mark.parametrize("height", [16, 24, 60])
def test_a_frame_fits_the_screen(width: int, height: int) -> None:
    lines = drawn(dashboard(), width, height)
    assert max(map(len, lines)) <= width
    if width >= 60:
        assert len(lines) <= height
        assert lines[-1].endswith("x close this screen")
    if height == 60 and width >= 60:
        assert sum(line.startswith("plant.") for line in lines) == 40


def test_signals_scroll_and_stop_at_the_end() -> None:
    shown = dashboard()
    seen = [line.split()[0] for line in drawn(shown) if line.startswith("plant.")]
    assert seen[0] == "plant.s0"
    shown.scroll(1000)
    last = [line.split()[0] for line in drawn(shown) if line.startswith("plant.")]
    assert (len(last), last[-1]) == (len(seen), "plant.s39")
    shown.scroll(-1)
    assert [line.split()[0] for line in drawn(shown) if line.startswith("plant.")][
        -1
    ] == "plant.s38"


def test_the_pace_is_shown_and_measured_anew_in_each_leg() -> None:
    assert " paused" in drawn(dashboard(standing=True))[0]
    assert "as fast as possible" in drawn(dashboard(rate=0.0))[0]
    shown = dashboard()
    shown.look(glance(1, leg=2, wall_ns=2 * 10**12))
    assert math.isnan(shown.rate)
    assert "segment 2" in drawn(shown)[0]
    assert shown.to_json()["latency"]["link"]["median_us"] == 1024


def test_bars() -> None:
    assert histogram([0, 1, 50, 100]) == " ▁▄█"
    assert histogram([0] * 3) == "   "
    assert sparkline([1.0, 2.0, 3.0]) == "▁▅█"
    assert sparkline([2.0, 2.0]) == "▁▁"
    assert sparkline([math.nan, 1.0, math.inf, 2.0]) == " ▁ █"
    assert sparkline([-1.5e308, 1.5e308]) == "▁█"
    assert sparkline([]) == ""


def test_input_is_split_into_keys() -> None:
    assert split("a\x1b[A \x1b[6~\x1b+") == ["a", "\x1b[A", " ", "\x1b[6~", "\x1b", "+"]


def test_without_a_terminal_top_names_the_option_once() -> None:
    done = subprocess.run([*RTSIM, "top"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert "without a terminal, type: rtsim top --once" in done.stderr


class Going:
    """A run in a process of its own, and what reaches it."""

    def __init__(self, folder: Path) -> None:
        self.env = {**os.environ, "RTSIM_RUNTIME_DIR": str(folder)}
        command = [
            *RTSIM, "run", "unstable", "--plain", "--control", "--pace", "1.0", "--until", "100000",
            "--overrun", "slip:1000000", "-o", str(folder / "live.mcap"),
        ]  # fmt: skip
        out = subprocess.DEVNULL
        self.process = subprocess.Popen(command, env=self.env, stdout=out, stderr=out)

    def top(self, *options: str) -> Terminal:
        return Terminal([*RTSIM, "top", *options], self.env, (100, 30))


@pytest.fixture
def going(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Going]:
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path))
    run = Going(tmp_path)
    entries = tmp_path / "runs"
    try:
        while not list(entries.glob("*.json")):
            assert run.process.poll() is None
            signal.sigtimedwait([], 0.05)
        yield run
    finally:
        run.process.kill()
        run.process.wait()


@pytest.mark.live
def test_keys_command_the_run_and_the_terminal_is_restored(going: Going) -> None:
    terminal = going.top("-s", "plant.*")
    try:
        screen = terminal.until(r"rate 1\b.*measured")
        assert "plant.x" in screen
        assert "controller" in screen
        terminal.press(" ")
        terminal.until("paused")
        with connect("unstable") as run:
            assert run.status.standing
            stood = run.status.ns
            terminal.press("s")
            terminal.until(r"step: at")
            assert run.status.ns > stood
            terminal.press("-")
            terminal.until(r"rate 0\.5: at")
            terminal.press("b")
            terminal.until("there is no checkpoint")
            terminal.press("mhere\x7fe!\r")
            terminal.until("mark here!: at the next tag")
            terminal.resize(64, 20)
            terminal.until(r"m mark\n", 20)
            terminal.press("x")
            terminal.until("closed this screen; the run continues")
            assert terminal.process.wait(20) == 0
            assert terminal.as_it_was
            assert run.status.standing, "whoever leaves ends nothing"
            run.quit()
    finally:
        terminal.close()
    assert going.process.wait(30) == 130


@pytest.mark.sample(1)
@pytest.mark.live
@pytest.mark.parametrize("how", ["SIGTERM", "Ctrl-C", "the end"])
def test_the_terminal_is_restored_after_each_kind_of_end(going: Going, how: str) -> None:
    terminal = going.top()
    try:
        terminal.until("measured")
        if how == "SIGTERM":
            terminal.process.send_signal(signal.SIGTERM)
        elif how == "Ctrl-C":
            terminal.press("\x03")
        else:
            terminal.press("qy\r")
        terminal.until(
            "the run reached its end|the run was ended by" if how == "the end" else "closed this"
        )
        assert terminal.process.wait(20) == 0
        terminal.read(0.5)
        assert terminal.as_it_was
    finally:
        terminal.close()
    assert (going.process.poll() is None) == (how != "the end") or going.process.wait(30) == 0


@pytest.mark.live
def test_once_and_json(going: Going) -> None:
    def said(*options: str) -> str:
        return subprocess.run(
            [*RTSIM, "top", *options], env=going.env, capture_output=True, text=True, check=True
        ).stdout

    assert "plant.x" in said("--once")
    found = json.loads(said("--json", "-s", "plant.x"))
    assert list(found["signals"]) == ["plant.x"]
    assert found["latency"]["controller"]["messages"] >= 0
    done = subprocess.run(
        [*RTSIM, "top", "--once", "-s", "plant.y"], env=going.env, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "plant.x" in done.stderr

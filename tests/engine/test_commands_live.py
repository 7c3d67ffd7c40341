"""A live F-16, in a process of its own behind its gateway, is told anything: it replays."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import rtsim
from random_command_parts import FAULTS, WRONG, right

from rtsim.core.clock import Wake
from rtsim.engine.commands.command_handler import AT_A_TAG
from rtsim.engine.commands.commands import KINDS, NEXT_TAG, read_command
from rtsim.engine.faults.description import fault_of, write_faults
from rtsim.gateway.client import ControlError, Run, connect
from rtsim.record.reading import Recording

pytestmark = pytest.mark.realtime
Told = dict[str, Any]
SENT = [
    (told, says)
    for told, says in WRONG
    if told and not any(isinstance(v, np.ndarray) for v in told.values())
]
"""Mistakes that a client lets through: for the run to refuse."""


class Live:
    """The run, what it was told and what it answered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_faults(folder / "faults.toml", [fault_of(fault) for fault in FAULTS])
        command = [
            sys.executable, "-m", "rtsim", "run", "f16", "--plain", "--control", "--pace", "3",
            "--until", "100000", "--rewind", "3", "--overrun", "slip:1000000",
            "--faults", "faults.toml", "-o", "flight.mcap",
        ]  # fmt: skip
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        self.followed: list[tuple[int, Told]] = []

    def tell(self, run: Run, told: Told, says: str = "") -> None:
        wrong, ns = "", NEXT_TAG
        try:
            ns = run.tell(**told)
        except ControlError as error:
            wrong = str(error)
        if told["kind"] == "restore" and wrong and not says:
            says = "there is no checkpoint at"
        assert says in wrong
        assert bool(says) == bool(wrong), f"{told}: {wrong or 'followed'}"
        if not wrong:
            self.followed.append((ns, told))

    @property
    def legs(self) -> list[Path]:
        found = sorted(self.folder.glob("flight.*.mcap"), key=lambda p: int(p.suffixes[0][1:]))
        return [self.folder / "flight.mcap", *found]


def fly(live: Live, commands: int, seed: int) -> None:
    """Two clients by turns, each waits for its answer; the run goes on in between."""
    chance, idle = random.Random(seed), Wake()
    with connect(live.process.pid, wait=60) as one, connect(live.process.pid) as other:
        for _ in range(commands):
            run = chance.choice([one, other])
            if chance.random() < 0.7:
                live.tell(run, right(chance))
            else:
                live.tell(run, *chance.choice(SENT))
            idle.wait(chance.choice([0.0, 0.0, 0.005, 0.02]))
        live.tell(one, {"kind": "quit"})
        assert live.process.wait(60) == 130
        with pytest.raises(ControlError, match="the run was ended by the command quit at"):
            other.set("f16.cg", 0.3)


def check(live: Live) -> None:
    """Every leg replays; each command was followed once, where its client was told that it is."""
    recorded: Counter[tuple[int, str]] = Counter()
    for path in live.legs:
        result = rtsim("replay", str(path))
        assert result.exit_code == 0, f"{path.name}: {result.output}"
        assert "equal bit for bit" in result.output
        events = Recording.open(path).events
        recorded.update((e.tag.ns, e.text) for e in events if e.kind == "Command")
    answered = Counter((ns, read_command(told).to_json()) for ns, told in live.followed)
    put_off = Counter({one: n for one, n in answered.items() if one[0] == NEXT_TAG})
    assert not (answered - put_off) - recorded, "what was followed is recorded at its tag"
    later = Counter(text for _, text in ((recorded - (answered - put_off)).elements()))
    told = Counter(text for _, text in put_off.elements())
    assert not later - told, "nothing else is"
    undone = [read_command(t).kind for ns, t in live.followed if ns == NEXT_TAG]
    assert set(undone) <= set(AT_A_TAG)


@pytest.mark.full
def test_a_live_run_that_is_told_500_things_replays_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    live = Live(tmp_path)
    try:
        fly(live, 500, seed=1)
    finally:
        live.process.kill()
        live.process.wait()
    check(live)
    assert {told["kind"] for _, told in live.followed} == set(KINDS)
    assert len(live.legs) > 1

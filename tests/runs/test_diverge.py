"""Each seeded nondeterminism is found at its first tag, by what a user types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from c_parts import with_gcc
from checkpoint_parts import law_in_c
from command_line import rtsim
from diverge_parts import diverged, fly, fly_elsewhere, lab_in, place

from rtsim.core.tag import Tag
from rtsim.record.reading import Recording

MS = 1_000_000


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lab_in(tmp_path)
    return tmp_path


def test_equal_runs_are_equal() -> None:
    fly("a.mcap", "--checkpoint-every", "0.25")
    fly("b.mcap", "--checkpoint-every", "0.25")
    for arguments in (("a.mcap", "b.mcap"), ("a.mcap",), ("a.mcap", "b.mcap", "--no-fly")):
        result = rtsim("diverge", *arguments)
        assert result.exit_code == 0, result.output
        assert "agree bit for bit from 0 to 1 s" in result.stdout
    result = rtsim("diverge", "a.mcap", "--from", "0.6")
    assert result.exit_code == 0, result.output
    assert "agree bit for bit from 0.5 to 1 s" in result.stdout


@pytest.mark.parametrize("other", ["b.mcap", ""])
def test_a_draw_in_the_derivative(other: str) -> None:
    fly("a.mcap", bug="draw")
    fly("b.mcap", bug="draw")
    told = diverged("a.mcap", *([other] if other else []))
    before, row = _about(502)
    tag = Recording.open("a.mcap").track("plant").tag(row)
    assert place(told) == (tag.ns, 0, "plant", "plant", "x-")
    assert told["agreed"]["ns"] < tag.ns
    [x] = told["first"]["values"]
    assert x["name"] == "x"
    assert x["a"] == Recording.open("a.mcap")["plant.x"][row]
    assert int(x["a_bits"], 16) == int(np.float64(x["a"]).view(np.uint64))
    fed = told["fed"]
    assert fed["how"] == f"the step of plant from {before} to {tag}"
    assert [pair["name"] for pair in fed["inputs"]] == ["plant.x", "plant.u", "plant.g"]
    assert [pair.get("source") for pair in fed["inputs"]] == [None, "c.y", "gust.u"]
    assert fed["equal"]
    assert told["recorded"] is None


def _about(ms: int) -> tuple[Tag, int]:
    """The plant's last tag up to a time, and its first row behind; both runs have the same."""
    track = Recording.open("a.mcap").track("plant")
    row = int(np.flatnonzero(track.rows.ns > ms * MS)[0])
    return track.tag(row - 1), row


@pytest.mark.parametrize("other", ["b.mcap", ""])
def test_a_clock_of_the_wall(other: str) -> None:
    fly("a.mcap", bug="clock")
    fly("b.mcap", bug="clock")
    told = diverged("a.mcap", *([other] if other else []))
    assert place(told) == (400 * MS, 0, "message", "c", "content")
    assert told["agreed"] == {"ns": 390 * MS, "step": 0}
    assert [pair["name"] for pair in told["first"]["values"]] == ["y"]
    fed = told["fed"]
    assert "the computation of c from its samples at 0.400000000 s" in fed["how"]
    assert [(pair["name"], pair["source"]) for pair in fed["inputs"]] == [("c.x", "s.x")]
    assert fed["equal"]


def test_an_unordered_set() -> None:
    fly_elsewhere("a.mcap", "set", hash_seed=1)
    fly_elsewhere("b.mcap", "set", hash_seed=2)
    told = diverged("a.mcap", "b.mcap")
    assert place(told) == (350 * MS, 0, "message", "c", "content")
    assert told["fed"]["equal"]


def test_a_step_in_single_precision() -> None:
    fly("a.mcap")
    fly("b.mcap", bug="single")
    told = diverged("a.mcap", "b.mcap")
    tag = Recording.open("a.mcap").track("plant").tag(_about(302)[1])
    assert place(told) == (tag.ns, 0, "plant", "plant", "x-")
    assert told["fed"]["equal"]
    [x] = told["first"]["values"]
    assert 0 < abs(x["a"] - x["b"]) < 1e-8


FAULT = """
[[fault]]
name = "lost"
where = "s"
kind = "drop"
at = {at}
duration = 0.01
"""


def test_a_message_that_a_fault_loses(folder: Path) -> None:
    (folder / "faults.toml").write_text(FAULT.format(at=0.62))
    fly("a.mcap")
    fly("b.mcap", "--faults", "faults.toml")
    told = diverged("a.mcap", "b.mcap")
    assert place(told) == (620 * MS, 0, "event", "lost", "Fault")
    [also] = [one for one in told["also"] if one["what"] == "message"]
    assert (also["name"], also["moment"], also["tag"]) == ("s", "on its way", told["first"]["tag"])
    assert any("faults" in note for note in told["notes"])


ADDRESS = """
#include <stdint.h>
#include <stdlib.h>
#include "law.h"
void law_initialize(void) {}
double law_step(double x, double v)
{
    static int step;
    double force = -(8.0 * x + 4.0 * v);
    void *block = malloc(64); /* lies elsewhere in each process */
    if (++step > 4)
        force += 1e-12 * (double)((uintptr_t)block >> 12 & 0xffff);
    free(block);
    return force;
}
"""


@with_gcc
def test_an_address_that_c_computes_with(folder: Path) -> None:
    """The fifth step is the first that uses it; fed with what was recorded, all is equal."""
    law_in_c(folder)
    (folder / "law.c").write_text(ADDRESS, encoding="utf-8")
    flown = ("sil", "run", "unstable", "-c", "controller=law.toml", "--until", "1")
    late = ("--set", "latency=0.013", "--latency", "0.03", "--checkpoint-every", "0.25")
    result = rtsim(*flown, *late, "-o", "a.mcap")
    assert result.exit_code == 0, result.output
    assert rtsim("diverge", "a.mcap").exit_code == 0
    told = diverged("a.mcap", "--live")
    assert place(told) == (400 * MS, 0, "message", "controller", "content")
    assert told["fed"]["how"].startswith("the computation of controller from its samples")
    assert told["fed"]["equal"]


def test_what_people_read() -> None:
    fly("a.mcap", bug="draw")
    fly("b.mcap", bug="draw")
    result = rtsim("diverge", "a.mcap", "b.mcap")
    assert result.exit_code == 1
    row = _about(502)[1]
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    values = [float(Recording.open(f"{name}.mcap")["plant.x"][row]) for name in "ab"]
    x = next(line for line in lines if line.startswith("x "))
    for value in values:
        assert f"{value!r} (0x{np.float64(value).view(np.uint64):016x})" in x
    steps = abs(
        int(np.float64(values[0]).view(np.int64)) - int(np.float64(values[1]).view(np.int64))
    )
    assert x.endswith(f"{steps} ulp apart")
    tag = Recording.open("a.mcap").track("plant").tag(row)
    assert f"first difference: plant plant (x-) at {tag}" in lines
    assert lines[0].startswith("last tag at which everything agreed: 0.5")
    assert any(line.startswith("plant.g ") and line.endswith("equal gust.u") for line in lines)
    assert "all these inputs are equal: the difference was made in this computation" in lines
    assert any(line.startswith("random streams used after 0.5") for line in lines)

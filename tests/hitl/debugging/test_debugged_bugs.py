"""Seeded bugs in C: the debugger stops at the step that shows each, in the function that has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner

import rtsim as rt
from hitl.cli.debug import debug
from hitl.controllers.sil import SilController
from rtsim.core.signals import Signals
from rtsim.record.file import FileRecorder
from rtsim.record.recorders import MemoryRecorder

pytestmark = [pytest.mark.system("gdb"), pytest.mark.long]

_SOURCE = r"""
#include <stdint.h>
#include <string.h>
#include "servo.h"

enum { TAPS = 4 };
static double ring[TAPS], integral, last;
static int head, missed;
static int16_t travelled;
static struct { double command; int fresh; } mailbox;

void servo_init(void)
{
    memset(ring, 0, sizeof ring);
    integral = last = 0;
    head = missed = 0;
    travelled = 0;
    memset(&mailbox, 0, sizeof mailbox);
}

static double filtered(double angle)
{
    double sum = 0;
    ring[head] = angle;
    head = (head + 1) % TAPS;
    for (int k = 0; k < TAPS; k++) sum += ring[k];
    return sum / TAPS;
}

static double radians(double degrees)
{
    return degrees * 3.14159265358979 / 180.0;
}

static double integrated(double error, int saturated)
{
    if (!saturated) integral += 0.01 * error;
    return integral;
}

static double derivative(double angle)
{
    double rate = (angle - last) / 0.01;
    last = angle;
    return rate;
}

static double limited(double value)
{
    if (value > 2) return 2;
    if (value < -2) return -2;
    return value;
}

static int counted(double value)
{
    int step = (int)(value * 100);
    if (step < 0) step = -step;
    if (travelled < 30000) travelled = (int16_t)(travelled + step);
    return travelled;
}

static void slow_task(double target)
{
    mailbox.command = radians(target);
    mailbox.fresh = 1;
}

static double fast_task(double angle)
{
    double weight;
    if (mailbox.fresh) missed = 0; else missed++;
    mailbox.fresh = 0;
    if (missed > 3) weight = 0.5; else weight = 1.0;
    double error = weight * mailbox.command - filtered(angle);
    double wanted = 3.0 * error + integrated(error, last > 1.9) - 0.05 * derivative(angle);
    return limited(wanted);
}

double servo_step(double target, double angle, int tick, double *total)
{
    if (tick % 5 == 0) slow_task(target);
    double torque = fast_task(angle);
    *total = counted(torque);
    return torque;
}
"""
_INTERFACE = """
name = "servo"
period = "1/100"
sources = ["servo.c"]
headers = ["servo.h"]
[code]
objects = "int tick"
initialize = ["servo_init()", "tick = 0"]
step = "torque = servo_step(target, angle, tick++, &total)"
[inputs]
target = { unit = "deg" }
angle = { unit = "rad" }
[outputs]
torque = { unit = "1" }
total = { unit = "1" }
"""


class Bug(NamedTuple):
    kind: str
    correct: str
    wrong: str
    function: str


BUGS = (
    Bug("sign", "- filtered(angle)", "+ filtered(angle)", "fast_task"),
    Bug("sign of the rate", "(angle - last) / 0.01", "(last - angle) / 0.01", "derivative"),
    Bug("sign of the limit", "return -2;", "return 2;", "limited"),
    Bug("wind-up", "if (!saturated) integral", "integral", "integrated"),
    Bug("wind-up, inverted", "if (!saturated)", "if (saturated)", "integrated"),
    Bug("overflow", "if (travelled < 30000) travelled", "travelled", "counted"),
    Bug("overflow of a byte", "(int16_t)(", "(int8_t)(", "counted"),
    Bug("stale rate", "    last = angle;\n", "", "derivative"),
    Bug("stale flag", "    mailbox.fresh = 0;\n", "    missed = 0;\n", "fast_task"),
    Bug("stale filter", "head = (head + 1) % TAPS;", "", "filtered"),
    Bug("off by one tap", "k < TAPS; k++", "k < TAPS - 1; k++", "filtered"),
    Bug("off by one in the ring", "(head + 1) % TAPS", "(head + 1) % (TAPS - 1)", "filtered"),
    Bug("off by one tick", "tick % 5 == 0", "tick % 5 == 1", "servo_step"),
    Bug("uninitialised sum", "double sum = 0;", "double sum = ring[TAPS - 1];", "filtered"),
    Bug("uninitialised weight", "weight = 0.5; else", "weight = integral; else", "fast_task"),
    Bug("wrong unit of the target", "radians(target)", "target", "slow_task"),
    Bug("wrong unit of the rate", "/ 0.01;\n    last", "/ 10;\n    last", "derivative"),
    Bug("degrees twice", "/ 180.0", "/ 180.0 / 180.0", "radians"),
    Bug("race: flag before data", "mailbox.command = radians(target);", "", "slow_task"),
    Bug("race: torn command", "mailbox.command = radians(target);",
        "mailbox.command = (float)radians(target);", "slow_task"),
)  # fmt: skip


def write(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "servo.c").write_text(text, "utf-8")
    header = "void servo_init(void);\ndouble servo_step(double, double, int, double *);\n"
    (folder / "servo.h").write_text(header, "utf-8")
    (folder / "servo.toml").write_text(_INTERFACE, "utf-8")
    return folder / "servo.toml"


def scenario(interface: Path) -> rt.Scenario:
    """Inputs that move both ways, beyond the limits, and for long enough to overflow 16 bits."""
    out = rt.Scenario("servo", until=4)
    out.source("set", Signals("target [deg] = 30", "angle [rad]"))
    chosen = np.random.default_rng(48)
    for k in range(1, 80):
        out.at(0.05 * k, "set.angle", float(chosen.uniform(-2.5, 2.5)))
        if k % 7 == 0:
            out.at(0.05 * k + 0.01, "set.target", float(chosen.uniform(-90, 90)))
    inputs = {"target": "set.target", "angle": "set.angle"}
    out.controller("servo", SilController(interface, cases=None), period="1/100", inputs=inputs)
    return out


@pytest.fixture(scope="module")
def correct(tmp_path_factory: pytest.TempPathFactory) -> rt.Recording:
    recorder = MemoryRecorder()
    rt.simulate(scenario(write(tmp_path_factory.mktemp("servo") / "c", _SOURCE)), recorder=recorder)
    return recorder.recording()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.kind)
def test_the_debugger_stops_in_the_function_of_the_bug(
    bug: Bug, correct: rt.Recording, tmp_path: Path
) -> None:
    assert _SOURCE.count(bug.correct) == 1, bug.correct
    interface = write(tmp_path / "c", _SOURCE.replace(bug.correct, bug.wrong))
    path = tmp_path / "run.mcap"
    rt.simulate(scenario(interface), recorder=FileRecorder(path))
    wrong, right = (run.track("messages/servo").rows for run in (rt.Recording.open(path), correct))
    different = np.flatnonzero((wrong.floats != right.floats).any(axis=1))
    assert len(different), "the inputs do not show the bug"
    step = int(different[0])
    at = f"{wrong.ns[step] / 1e9:.9f}"
    inside = [f"break {bug.function}", "continue", "info symbol $pc"]
    words = [*(inside if bug.function != "servo_step" else ()), *(["previous-step"] * (step > 0))]
    given = [part for word in words for part in ("--command", word)]
    done = CliRunner().invoke(debug, [str(path), "--trust", "--at", at, "--json", *given])
    found = json.loads(done.stdout)
    assert done.exit_code == 0, found["output"]
    assert found["step"] == step
    assert found["recorded"] == found["computed"]
    assert list(found["recorded"].values()) == wrong.floats[step].tolist()
    assert f"step {step} at " in found["output"]
    if bug.function != "servo_step":
        assert f"{bug.function} + " in found["output"], found["output"]
    assert found["stopped"]["function"] == "servo_step"
    assert found["stopped"]["step"] == max(0, step - 1)

"""Small controllers in C with branches that are hard to reach, and their interface files."""

from __future__ import annotations

from pathlib import Path

from hitl.cli.interfaces import write_starter

MACHINE = """#include "machine.h"
#define WELL(x) ((x) > 99.5 && !((x) >= 100.5))

static int mode, count;
static double sum;

void machine_init(void) { mode = count = 0; sum = 0.0; }

double machine_step(double speed, double level, int code)
{
    switch (mode) {
    case 0:
        count = WELL(speed) ? count + 1 : 0;
        if (count >= 6)
            mode = 1;
        break;
    case 1:
        sum += 0.1 * level;
        if (sum > 3.0)
            mode = 2;
        break;
    default:
        if (code == 4711)
            return -1.0;
    }
    if (speed * speed < 0.0)
        return 7.0;
    return mode == 2 ? sum : 0.0;
}
"""
"""A state machine: 6 steps at one speed, an integral, a code; one condition is never true."""

DIVIDING = """#include "dividing.h"
int dividing_step(int code)
{
    if (code > 1000)
        return 1;
    if (code == 77)
        return 1000 / (code - 77);
    return code;
}
"""
"""Divides by zero for one input."""


def write_machine(folder: Path) -> Path:
    """Write the state machine, and return its interface file."""
    return _write(
        folder, "machine", MACHINE,
        "void machine_init(void);\ndouble machine_step(double speed, double level, int code);\n",
        'initialize = "machine_init()"\nstep = "y = machine_step(speed, level, code)"',
        "speed = { low = 0, high = 10000 }\nlevel = { low = -100, high = 100 }\n"
        'code = { type = "int32", low = 0, high = 65535 }',
        "y = {}",
    )  # fmt: skip


def write_dividing(folder: Path) -> Path:
    """Write the controller that divides by zero, and return its interface file."""
    return _write(
        folder, "dividing", DIVIDING, "int dividing_step(int code);\n",
        'step = "y = dividing_step(code)"',
        'code = { type = "int32", low = 0, high = 2000 }', 'y = { type = "int32" }',
    )  # fmt: skip


def _write(
    folder: Path, name: str, source: str, header: str, code: str, inputs: str, outputs: str
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.c").write_text(source)
    (folder / f"{name}.h").write_text(header)
    path = folder / f"{name}.toml"
    path.write_text(
        f'name = "{name}"\nperiod = 0.01\nsources = ["{name}.c"]\nheaders = ["{name}.h"]\n'
        f"[code]\n{code}\n[inputs]\n{inputs}\n[outputs]\n{outputs}\n"
    )
    return path


MODE = "mode = { type = 'uint8', low = 0, high = 7 }\nready = { type = 'bool' }\n"
"""Two further inputs of the motor controller of ``rtsim sil init``."""
_INPUTS = "    mode = rt.input()\n    ready = rt.input()\n"
_HELD = """\
    held = loop.source("held", rt.Signals("mode", "ready"))
    loop.connect(held.mode, controller.mode)
    loop.connect(held.ready, controller.ready)
"""
"""The inputs in the reference model, and what the run holds them at."""


def write_motor_with_mode(folder: Path) -> Path:
    """Write a motor controller that copies its inputs; return the path of its stimuli.

    The run holds the third input and the output ``state``, which is a copy of it.
    """
    write_starter(folder)
    _change(
        folder / "motor.toml",
        ('speed)"\n', 'speed); state = mode"\n'),
        ("\n[outputs]\n", f"{MODE}\n[outputs]\nstate = {{ type = 'uint8' }}\n"),
    )
    _change(
        folder / "scenario.py",
        ('    speed = rt.input("rad/s")\n', f'    speed = rt.input("rad/s")\n{_INPUTS}'),
        ("    voltage = rt.output", "    state = rt.output()\n    voltage = rt.output"),
        ("        wanted = ", "        self.state = self.mode\n        wanted = "),
        ('    loop.plot("speed', f'{_HELD}    loop.plot("speed'),
    )
    return folder / "motor.stimuli.toml"


def _change(path: Path, *changes: tuple[str, str]) -> None:
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")

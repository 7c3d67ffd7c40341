"""Numbers that no field can hold, in each kind of TOML file: one error in words, or a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hitl.boards import BoardError
from hitl.interface.file import load_interface
from hitl.rigs.file import load_rig
from rtsim.components.frames.struct_codec import read_structs
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signals
from rtsim.core.toml import open_toml
from rtsim.engine.faults.description import read_faults
from rtsim.models.piloting.experiment import read_experiment
from rtsim.models.piloting.task import read_task
from rtsim.pilot.devices.mapping import read_mapping

ROOT = Path(__file__).parents[3]
NUMBER = re.compile(r"(?<![\w.\"'-])-?\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.\"'])")
EXTREMES = (
    "0", "-1", "1e308", "-1e308", "5e-324", "inf", "nan", "1e400", "9223372036854775807",
    "-9223372036854775808", "1" + 400 * "0", "1" + 5000 * "0", "0x" + 5000 * "f", "true", '"x"',
)  # fmt: skip
OWN = {
    "faults": """
[[fault]]
kind = "bias"
on = "plane.x"
at = 1.0
until = 2.0
value = 0.5

[[fault]]
kind = "drop"
on = "law"
at = 1.0
probability = 0.25
""",
    "experiment": """
scenario = "f16"
participants = ["a", "b"]
seed = 3
repetitions = 2
familiarisation = 1

[conditions]
"f16.cg" = [0.2, 0.3]
""",
    "structs": """
[frame]
id = 5
fields = "u16 speed, f32 torque"
speed = { scale = 0.5, offset = 2.0 }
""",
}
STICK = Signals("pitch", "roll", "yaw", "throttle")


def _stick(path: Path) -> None:
    read_mapping(path, STICK)


READERS: dict[str, Callable[[Path], object]] = {
    "mixer.toml": load_interface, "arrays.toml": load_interface, "motor.toml": load_interface,
    "pendulum.toml": load_rig, "illumination.toml": load_rig,
    "aircraft.toml": _stick, "pitch-tracking.toml": read_task, "gates.toml": read_task,
    "approach.toml": read_task, "faults": read_faults,
    "experiment": read_experiment, "structs": read_structs,
}  # fmt: skip


def _place_of(name: str, folder: Path) -> Path:
    """Write the file beside what it refers to; return its path."""
    if name in OWN:
        path = folder / f"{name}.toml"
        path.write_text(OWN[name])
        return path
    (found, *_) = [*ROOT.glob(f"hitl/**/{name}"), *ROOT.glob(f"rtsim/**/{name}")]
    for beside in found.parent.iterdir():
        if beside.is_file():
            (folder / beside.name).write_bytes(beside.read_bytes())
    return folder / name


def _changed(text: str) -> Iterator[str]:
    for found in NUMBER.finditer(text):
        if "#" not in text[text.rfind("\n", 0, found.start()) + 1 : found.start()]:
            for number in EXTREMES:
                yield f"{text[: found.start()]}{number}{text[found.end() :]}"


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", READERS)
def test_a_number_that_no_field_holds_is_one_error_in_words(name: str, tmp_path: Path) -> None:
    path = _place_of(name, tmp_path)
    text = path.read_text()
    tried = refused = 0
    for changed in _changed(text):
        path.write_text(changed)
        tried += 1
        try:
            READERS[name](path)
        except (RtsimError, BoardError):  # anything else is an internal error for the user
            refused += 1
    assert tried >= len(EXTREMES)
    assert refused >= 3, "at least the integers that are too long"


@pytest.mark.parametrize(
    ("text", "said"),
    [("a = 1" + 400 * "0", "a.toml:1: a = 1000"),
     ("[t]\nb = [1, -9223372036854775809]", "a.toml:2: t: b = -9223372036854775809 has 64 bits"),
     ("a = " + 5000 * "9", "thousands of digits"),
     ("a = 0x" + 5000 * "f", "a = a very large number has 20000 bits"),
     ("a = " + 5000 * "[" + 5000 * "]", "nested too deeply"),
     ("a = \n", "a.toml:1: the file is not valid TOML: Invalid value at column 5")],
)  # fmt: skip
def test_values_that_cannot_be_used_are_one_kind_of_error(
    text: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(RtsimError, match=re.escape(said)):
        open_toml(path, "a file")


def test_the_largest_integers_of_toml_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("a = 9223372036854775807\nb = -9223372036854775808\nc = inf")
    assert open_toml(path, "a file").data == {"a": 2**63 - 1, "b": -(2**63), "c": float("inf")}

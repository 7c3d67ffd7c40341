"""Back to back: a translation against its design, step by step and in the loop."""

from __future__ import annotations

from rtsim.models.unstable import scenario


def test_a_copy_of_a_scenario_is_changed_by_itself() -> None:
    one = scenario()
    other = one.copy()
    other.set("plant.x", 2.0)
    other.set("controller.proportional", 9.0)
    other.at(1, "plant.stiffness", 3.0)
    other.origin["reference"] = "other"
    assert one.describe() == scenario().describe()
    described = other.describe()["parts"]
    assert described["plant"]["states"]["x"] == 2.0
    assert described["controller"]["parameters"]["proportional"] == 9.0

"""Tests that the C code agrees with the reference model. Run them with ``pytest``."""

from typing import Any


def test_the_c_does_what_its_reference_model_does(back_to_back: Any) -> None:
    with back_to_back("scenario.py", {"controller": "motor.toml"}) as result:
        result.assert_ok()


def test_the_command_is_limited(sil: Any) -> None:
    with sil("motor.toml", gain=1.0) as controller:
        assert controller.step(setpoint=100.0, speed=0.0).voltage == 12.0
        assert controller.step(setpoint=-100.0).voltage == -12.0


def test_the_motor_reaches_its_speed(plant: Any) -> None:
    with plant("scenario.py", setpoint=80.0) as motor:
        recording = motor.fly({"controller": "motor.toml"}, until=1.5)
        assert abs(recording["motor.speed"][-1] - 80.0) < 0.1

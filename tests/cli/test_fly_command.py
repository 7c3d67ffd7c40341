"""``rtsim fly``: what is refused before anything flies, with what to type."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rtsim.cli import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("orbit",), "orbit has 0 external inputs (none), but rtsim fly needs exactly one"),
        (("f16", "--size", "big"), "write WIDTHxHEIGHT"),
        (("f16", "--size", "10x10"), "give 160x120 to 7680x4320"),
        (("f16", "--size", "\u00b2x100"), "write WIDTHxHEIGHT"),
        (("f16", "--size", "9" * 5000 + "x100"), "write WIDTHxHEIGHT"),
        *((("f16", "--every", bad), "give seconds > 0") for bad in ("0", "-1", "nan", "inf")),
        (("f16", "--frames", "file/pictures"), "--frames file/pictures: Not a directory; give"),
        (("f17",), "did you mean f16"),
        (("f16", "--task", "pitch-trackin"), "did you mean pitch-tracking"),
        (("f16", "--task", "gates", "--set", "task=gates"), "given by --task and by --set"),
        (("f16", "--latency", "3"), "latency = 3 s; give seconds from 0 to 1.26"),
        (("f16", "--set", "by=script", "--task", "pitch-tracking"), "has 0 external inputs"),
        (("orbit", "--task", "gates"), "scenario orbit has no argument task"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], told: str) -> None:
    Path("file").write_text("in the way")
    result = CliRunner().invoke(main, ["fly", *arguments, "--no-record", "--headless"])
    assert result.exit_code == 2
    assert told in result.stderr


EXTERNAL_INPUT = """
from rtsim import Scenario
from rtsim.models.ball import scenario as ball
from rtsim.core.signals import Signal, Signals


class Silent:
    def poll(self) -> None:
        return None


def scenario() -> Scenario:
    out = ball()
    out.external_input("lever", Signals({signal}), Silent())
    return out
"""


@pytest.mark.parametrize(
    ("signal", "told"),
    [
        ("Signal('push', shape=(2,))", "lever.push is an array of 2 elements, but a stick can"),
        ("Signal('push', low=1.0, high=1.0)", "lever.push has the limits 1 to 1, so a stick"),
    ],
)
def test_an_external_input_that_no_stick_can_move(signal: str, told: str) -> None:
    Path("mine.py").write_text(EXTERNAL_INPUT.format(signal=signal))
    result = CliRunner().invoke(main, ["fly", "mine.py", "--no-record", "--headless"])
    assert result.exit_code == 2
    assert told in result.stderr


@pytest.mark.parametrize(
    ("third", "told"),
    [
        ("ball.heigth", "unknown signal 'ball.heigth' in body rock; did you mean ball.height"),
        ("ball.speed", "body rock: signal ball.speed has the unit [m/s]; expected one of m"),
    ],
)
def test_a_body_with_a_wrong_signal_is_refused_before_compiling(third: str, told: str) -> None:
    """As with --foxglove, which shows the bodies too."""
    shown = f"""
    from rtsim import Body
    turned = ("ball.height",) * 4
    out.show(Body("rock", north_east_down=("ball.height", "ball.height", "{third}"),
                  quaternion=turned))
    return out
"""
    mine = EXTERNAL_INPUT.format(signal="Signal('push')").replace("\n    return out\n", shown)
    Path("mine.py").write_text(mine)
    result = CliRunner().invoke(main, ["fly", "mine.py", "--no-record", "--headless"])
    assert result.exit_code == 2
    assert told in result.stderr.replace("\n", " ")


def test_help_names_the_scenario_and_the_options() -> None:
    result = CliRunner().invoke(main, ["fly", "--help"])
    assert result.exit_code == 0
    for word in ("f16", "--mapping", "--headless", "--frames", "gamepad"):
        assert word in result.stdout

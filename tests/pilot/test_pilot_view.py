"""``rtsim run --view``: any scenario in a window, and nothing of the run is another."""

from __future__ import annotations

import json
from pathlib import Path

import pygame
import pytest
from click.testing import CliRunner

from rtsim.cli import main
from rtsim.pilot.views import default_scene
from rtsim.record.reading import Recording


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(main, ["run", "ball", "--until", "0.4", *arguments, "--json"])
    assert result.exit_code == 0, result.stderr
    found: dict[str, object] = json.loads(result.stdout)
    return found


def test_any_run_is_watched_and_stays_what_it_is(tmp_path: Path) -> None:
    alone = run("-o", "alone.mcap")
    assert "view" not in alone
    hidden = ("--headless", "--frames", "pictures", "--every", "0.01", "--size", "320x180")
    slip = ("--overrun", "slip")  # a busy machine may be late
    seen = run("-o", "seen.mcap", "--view", *hidden, *slip)
    assert alone["certificate"]["rate"] == "max"  # type: ignore[index]
    assert seen["certificate"]["rate"] != "max"  # type: ignore[index]
    assert seen["view"]["window_lost"] is False  # type: ignore[index]
    assert Recording.open("seen.mcap").digest() == Recording.open("alone.mcap").digest()
    pictures = sorted((tmp_path / "pictures").iterdir())
    assert pictures
    picture = pygame.image.load(pictures[-1])
    assert picture.get_size() == (320, 180)
    assert pygame.surfarray.array3d(picture).std() > 5


def test_a_pace_that_was_typed_is_kept() -> None:
    hidden = ("--no-record", "--view", "--headless", "--size", "160x120")
    assert run(*hidden, "--pace", "max")["certificate"]["rate"] == "max"  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--headless",), "work only with --view"),
        (("--frames", "pictures"), "work only with --view"),
        (("--view", "--every", "0"), "give seconds > 0"),
        (("--view", "--size", "9x9"), "give 160x120 to 7680x4320"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], told: str) -> None:
    result = CliRunner().invoke(main, ["run", "ball", "--no-record", *arguments])
    assert result.exit_code == 2
    assert told in result.stderr


def test_which_scene_shows_what() -> None:
    assert default_scene("ball") == {"scenario": "ball"}
    for name in ("f16", "f16-by-hand"):
        assert default_scene(name)["scene"] == "f16"
    assert default_scene("orbit")["scene"] == "orbit"

"""The help of a window: whole in a window of any size, and in a pilot's words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pygame
import pytest

from rtsim.models.f16.by_wire import STICK
from rtsim.pilot.devices.calibration import own_mapping
from rtsim.pilot.devices.controls import Controls
from rtsim.pilot.scenes import text
from rtsim.pilot.viewer import overlay


@pytest.mark.parametrize("size", [(1280, 720), (640, 360), (320, 180), (360, 720)])
def test_the_help_is_whole_in_a_window_of_any_size(size: tuple[int, int]) -> None:
    areas: list[pygame.Rect] = []

    class Page:
        """Notes where the help is drawn."""

        def get_size(self) -> tuple[int, int]:
            return size

        def blit(self, _: pygame.Surface, area: pygame.Rect) -> None:
            areas.append(area)

    overlay.draw_help(Page(), Controls(own_mapping(STICK), STICK).movers)  # type: ignore[arg-type]
    (area,) = areas
    assert pygame.Rect(0, 0, *size).contains(area)
    assert area.height > 0.5 * min(size[1], 450)


def test_the_help_of_the_aircraft_reads_as_a_pilot_reads_it() -> None:
    rows = dict(overlay.help_rows(Controls(own_mapping(STICK), STICK).movers))
    assert rows["pitch"] == "down: nose up, up: nose down; mouse (M)"
    assert rows["throttle"] == "w: more, s: less"


@pytest.mark.parametrize("size", [(1280, 720), (640, 400), (320, 180)])
def test_no_text_of_the_help_is_cut_off(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the longest row that rtsim's own mapping gives, a trimmed pitch."""
    edges: list[tuple[int, int]] = []

    def write(page: pygame.Surface, says: str, *more: Any) -> pygame.Rect:
        drawn = text.write(page, says, *more)
        edges.append((drawn.left, drawn.right - page.get_width()))
        return drawn

    monkeypatch.setattr(overlay, "write", write)
    overlay._help_page.cache_clear()
    movers = Controls(own_mapping(STICK), STICK).movers
    movers["pitch"] = replace(movers["pitch"], trim=-0.123)
    surface = pygame.Surface(size)
    overlay.draw_help(surface, movers)
    assert len(edges) > 30
    assert min(left for left, _ in edges) >= 0
    assert max(right for _, right in edges) <= 0

"""Signals of any model as traces: what goes where, and what is drawn of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pygame
import pytest

from rtsim.core.signals import Signal, Signals
from rtsim.models.f16.plant import F16
from rtsim.pilot.scenes.scene import KeptStates, PastStates, SceneMoment, ScenePast, Shown
from rtsim.pilot.scenes.strips import (
    TRACES,
    StripScene,
    distinct_texts,
    layout,
    polylines,
    scale,
    strips_of,
)

NS = 1_000_000_000
F16_SIGNALS = F16.states + F16.discrete + F16.inputs + F16.outputs
ONE = Signals(Signal("height", "m"))


def shown(ns: int, *values: float, signals: Signals = ONE) -> Shown:
    return Shown(signals, np.array(values), np.zeros(len(values)), ns)


def past(values: Sequence[float], span_s: float = 1.0) -> ScenePast:
    """Evenly over a second."""
    ns = np.linspace(0, NS, len(values)).astype(np.int64)
    return ScenePast(ns, np.array(values)[:, None], round(span_s * NS))


# -- what is kept


def test_the_newest_are_kept_and_the_span_is_that_of_all_at_the_mean_rate() -> None:
    kept = KeptStates(1, most=4)
    for k in range(11):
        found = kept.note(k * NS, np.array([float(k)]))
        assert found.span == (3 * NS if k else 0)
        wanted = list(range(max(0, k - 3), k + 1))
        assert found.ns.tolist() == [NS * n for n in wanted]
        assert found.values[:, 0].tolist() == wanted


def test_a_picture_of_an_earlier_time_forgets_what_came_after() -> None:
    kept = KeptStates(1)
    for ns, value in ((0, 0.0), (10, 1.0), (20, 2.0), (10, 5.0), (10, 6.0)):
        found = kept.note(ns, np.array([value]))
    assert found.ns.tolist() == [0, 10]
    assert found.values[:, 0].tolist() == [0.0, 6.0]


def test_a_past_that_is_known_comes_first() -> None:
    known = past([1.0, 2.0])
    pasts = PastStates()
    assert pasts.of(SceneMoment({"a": shown(5, 1.0)}, past={"a": known}), "a") is known
    assert pasts.of(SceneMoment({"a": shown(5, 1.0)}), "a").ns.tolist() == [5]


# -- where it goes


def test_each_element_has_its_strip() -> None:
    signals = Signals(Signal("q", shape=(4,)), "v [m/s]", Signal("m", shape=(3, 3)))
    found = strips_of("body", signals, alone=False)
    assert [s.title for s in found] == ["body.q", "body.v", "body.m", "body.m"]
    assert [c for s in found for c in s.columns] == list(range(14))
    assert max(len(s.columns) for s in found) <= len(TRACES)


@pytest.mark.parametrize("size", [(1280, 720), (160, 120), (400, 900), (7680, 4320)])
@pytest.mark.parametrize("count", [1, 7, 40, 300])
def test_pages_hold_all_strips_without_overlap(size: tuple[int, int], count: int) -> None:
    _, pages, places = layout(count, size, 0)
    assert (pages - 1) * len(places) < count <= pages * len(places)
    boxes = [pygame.Rect(place) for place in places]
    area = pygame.Rect((0, 0), size)
    for k, box in enumerate(boxes):
        assert area.contains(box)
        assert box.collidelist(boxes[k + 1 :]) == -1
    assert [layout(count, size, page)[0] for page in (pages, -1)] == [0, pages - 1]


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([0.0], (-1.0, 1.0)),
        ([5.0, 5.0], (4.5, 5.5)),
        ([0.13, 0.87], (0.1, 0.9)),
        ([-320.0, 1999.0], (-1000.0, 2000.0)),
        ([math.nan, 1.0, 3.0], (1.0, 3.0)),
        ([math.nan, math.inf], (-1.0, 1.0)),
    ],
)
def test_a_scale_has_round_ends(values: list[float], ends: tuple[float, float]) -> None:
    assert scale(np.array(values)) == pytest.approx(ends)


@pytest.mark.parametrize("values", [[1e308, -1e308], [5e-324, 0.0], [1e15, 1e15 + 1.0]])
def test_a_scale_is_never_a_point(values: list[float]) -> None:
    low, high = scale(np.array(values))
    assert low < high
    assert low <= min(values)
    assert high >= max(values)


@pytest.mark.parametrize(
    ("ends", "texts"),
    [
        ((-1.0, 2.0), ("-1", "2")),
        ((1.004, 1.006), ("1.004", "1.006")),
        ((150.9661, 150.9664), ("150.9661", "150.9664")),
        ((457.2, 457.201), ("457.2", "457.201")),
        ((-6e6, 4e6), ("-6e+06", "4e+06")),
    ],
)
def test_the_ends_of_a_scale_are_told_apart(
    ends: tuple[float, float], texts: tuple[str, str]
) -> None:
    assert distinct_texts(*ends) == texts


# -- traces

AREA = (100, 50, 201, 110)


def test_a_trace_ends_at_the_right_and_reaches_its_scale() -> None:
    (line,) = polylines(past([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0]), (0.0, 2.0), AREA, 9.0)
    assert line == [[100, 155], [200, 105], [300, 55]]
    half = past([0.0, 1.0, 2.0], span_s=2.0)
    (line,) = polylines(half, half.values[:, 0], (0.0, 2.0), AREA, 9.0)
    assert [x for x, _ in line] == [200, 250, 300]


def test_a_trace_is_apart_where_there_is_no_value_or_an_angle_wraps() -> None:
    gap = past([0.0, 1.0, math.nan, 1.0, 0.0])
    found = polylines(gap, gap.values[:, 0], (0.0, 1.0), AREA, math.inf)
    assert [[x for x, _ in line] for line in found] == [[100, 150], [250, 300]]
    turn = past([3.0, 3.1, -3.1, -3.0])
    assert len(polylines(turn, turn.values[:, 0], (-4.0, 4.0), AREA, math.pi)) == 2
    assert len(polylines(turn, turn.values[:, 0], (-4.0, 4.0), AREA, math.inf)) == 1


# -- pictures


def colours(surface: pygame.Surface) -> set[tuple[int, ...]]:
    pixels = pygame.surfarray.array3d(surface).reshape(-1, 3)
    return {tuple(map(int, one)) for one in np.unique(pixels, axis=0)}


def test_a_moving_signal_is_drawn_where_it_was() -> None:
    """A step from 0 to 1 is low on the left, high on the right."""
    scene, surface = StripScene(), pygame.Surface((640, 200))
    for k in range(600):
        scene.draw(surface, SceneMoment({"ball": shown(k * NS, float(k >= 300))}))
    pixels = pygame.surfarray.array3d(surface)
    traces = (pixels == TRACES[0]).all(axis=2)
    left, right = (np.flatnonzero(traces[x]) for x in (250, 540))
    assert left.min() > right.max() + 50


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [(1280, 720), (160, 120)])
def test_every_signal_of_an_aircraft_is_on_some_page(size: tuple[int, int]) -> None:
    scene, surface = StripScene(), pygame.Surface(size)
    _, pages, _ = layout(len(strips_of("", F16_SIGNALS, True)), size, 0)
    seen = []
    for page in range(pages):
        for k in range(2):
            values = np.sin(np.arange(F16_SIGNALS.size) + k)
            plant = shown(2 * page * NS + k * NS, *values, signals=F16_SIGNALS)
            scene.draw(surface, SceneMoment({"f16": plant}, page=page))
        assert TRACES[0] in colours(surface)
        labels = surface.subsurface(pygame.Rect(0, 30, 60, size[1] - 30))
        seen.append(pygame.image.tobytes(labels, "RGB"))
    assert len(set(seen)) == pages


def test_a_run_without_a_plant_says_so() -> None:
    surface = pygame.Surface((400, 100))
    StripScene().draw(surface, SceneMoment({}))
    assert len(colours(surface)) > 2


def test_what_is_no_number_is_drawn_too() -> None:
    surface = pygame.Surface((640, 200))
    scene = StripScene()
    for k, value in enumerate((0.0, math.inf, math.nan, -1e308, 1e308)):
        scene.draw(surface, SceneMoment({"ball": shown(k * NS, value)}))

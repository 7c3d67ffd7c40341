"""Conformance check of scenes, both rtsim's own and those of other packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.extras import needs
from rtsim.pilot.scenes.scene import SceneFactory, SceneMoment, views_of

with needs("pilot", "a scene"):
    import pygame

SIZES = ((160, 120), (640, 360), (1280, 720))
_UNTOUCHED = (255, 0, 255)


def check_scene(
    factory: SceneFactory, moments: Sequence[SceneMoment], about: Mapping[str, Any] | None = None
) -> None:
    """Check that a scene obeys the rules of the interface; raise ``AssertionError`` if not.

    ``about`` contains the options of ``Scenario.show``. ``moments`` contains the data of a run at
    successive times. The rules are:

    - the scene draws each moment on surfaces of several sizes and in each view;
    - the scene draws states that are not finite without an error;
    - the scene does not change its arguments;
    - two instances of the scene draw the same pictures.
    """
    given = dict(about or {})
    for size in SIZES:
        first = _pictures(factory(given), moments, size)
        for picture in first:
            assert (picture != np.array(_UNTOUCHED)).any(), f"nothing is drawn at {size}"
        second = _pictures(factory(given), moments, size)
        assert all((a == b).all() for a, b in zip(first, second, strict=True)), (
            f"two scenes draw the same run differently at {size}: draw only from the moment"
        )
    for number in (np.nan, np.inf, 1e300):
        _pictures(factory(given), [_filled(moment, number) for moment in moments], SIZES[0])
    assert given == dict(about or {}), "the scene changed its options"


def _pictures(
    scene: Any, moments: Sequence[SceneMoment], size: tuple[int, int]
) -> list[NDArray[np.uint8]]:
    out = []
    for moment in moments:
        surface = pygame.Surface(size)
        for view in views_of(scene):
            surface.fill(_UNTOUCHED)
            with _read_only(moment):
                scene.draw(surface, replace(moment, view=view))
        out.append(pygame.surfarray.array3d(surface))
    return out


@contextmanager
def _read_only(moment: SceneMoment) -> Iterator[None]:
    arrays: list[NDArray[Any]] = [
        array for plant in moment.plants.values() for array in (plant.values, plant.slope)
    ]
    arrays += [array for past in moment.past.values() for array in (past.values, past.ns)]
    before = [array.flags.writeable for array in arrays]
    try:
        for array in arrays:
            array.flags.writeable = False
        yield
    finally:
        for array, writable in zip(arrays, before, strict=True):
            if writable:
                array.flags.writeable = True


def _filled(moment: SceneMoment, number: float) -> SceneMoment:
    plants = {
        name: replace(plant, values=np.full_like(plant.values, number))
        for name, plant in moment.plants.items()
    }
    return replace(moment, plants=plants, past={})

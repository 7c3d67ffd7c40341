"""Images that ship: of these sources, doing what a build of today does."""

from __future__ import annotations

import pytest
from firmware_parts import random_inputs, started, with_avr_gcc

from hitl.boards.known import board_named
from hitl.firmware import firmware
from hitl.firmware.firmware import FOLDER, Shipped, manifest
from hitl.firmware.shipping import SHIPPED
from hitl.firmware.sketch import sketch_of
from hitl.interface import load_interface


@pytest.mark.parametrize("image", manifest(), ids=lambda i: i.file)
def test_an_image_is_that_of_its_sources(image: Shipped) -> None:
    sketch = sketch_of(load_interface(image.interface), image.baud, board_named(image.board))
    stale = "run python -m hitl.firmware.shipping"
    assert (image.key, image.build) == (sketch.key, sketch.build), stale


def test_the_manifest_lists_all_that_is_there() -> None:
    assert {image.path for image in manifest()} == set(FOLDER.glob("*.hex"))
    listed = [(image.interface, image.baud, image.board) for image in manifest()]
    assert listed == list(SHIPPED)


def _rebuilt(image: Shipped) -> object:
    """The image; one that takes the system's compiler needs a mark."""
    marks = () if board_named(image.board).compiler.package else with_avr_gcc
    return pytest.param(image, id=image.file, marks=marks)


@pytest.mark.parametrize("image", [_rebuilt(image) for image in manifest()])
def test_a_build_of_today_does_the_same(image: Shipped) -> None:
    """The same replies, to the byte; the same image, where the compiler is the same."""
    made = firmware(image.interface, baud=image.baud, build=True, board=board_named(image.board))
    assert not made.prebuilt
    if made.compiler == image.compiler:
        assert made.path.read_bytes() == image.path.read_bytes()
        return
    inputs = random_inputs(made.interface.inputs, 30)
    heard = []
    for path in (image.path, made.path):
        with started(made, path=path) as talk:
            steps = [talk.stepped(k, u) for k, u in enumerate(inputs)]
            heard.append([step.outputs.tobytes() for step in steps])
    assert heard[0] == heard[1]

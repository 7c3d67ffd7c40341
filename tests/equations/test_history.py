"""What a controller was asked, so that it can be asked again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rtsim.components.request_log import RequestLog, feed, steps_of
from rtsim.core.errors import ControllerError
from rtsim.core.net.messagepack import pack, unpack
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag


class Summing:
    """Sums its first input; ``start`` is what a memory that was never set holds."""

    def __init__(self, width: int = 1, start: float = 0.0, most_bytes: int = 1 << 20) -> None:
        self.history = RequestLog(width, most_bytes)
        self.sum = start

    def send(self, tag: Tag, inputs: Vector) -> None:
        self.history.add(tag, inputs)
        self.sum += float(inputs.sum()) + 1.0

    def receive(self, tag: Tag) -> Vector | None:  # noqa: ARG002
        answer = np.array([self.sum])
        self.history.heard(answer)
        return answer

    def ran(self, steps: int, answered: bool = True) -> Summing:
        for k in range(steps):
            self.send(Tag(k, 1), np.full(self.history.width, k / 2))
            if answered or k < steps - 1:
                self.receive(Tag(k, 1))
        return self

    def fed(self, saved: dict[str, Any]) -> Summing:
        feed(unpack(pack(saved)), self.history, "summing", self.send, self.receive)
        return self


@pytest.mark.parametrize("steps", [0, 1, 1023, 1024, 1025, 5000])
def test_history(steps: int) -> None:
    whole, short = RequestLog(1), RequestLog(1, most_bytes=2048 * 24)
    for k in range(steps):
        for history in (whole, short):
            history.add(Tag(k, 1), np.array([k / 2]))
    assert whole.inputs[:, 0].tolist() == [k / 2 for k in range(steps)]
    assert whole.tags.tolist() == [[k, 1] for k in range(steps)]
    kept = short.tags[:, 0].tolist()
    assert kept == list(range(steps - len(kept), steps))
    assert len(kept) <= 2048
    assert len(kept) == steps or len(kept) > 1024
    assert (whole.forgotten, short.forgotten) == (0, steps - len(kept))


@pytest.mark.parametrize("width", [0, 1, 3])
@pytest.mark.parametrize("steps", [0, 1, 2, 1023, 1024, 1025, 2049])
@pytest.mark.parametrize("answered", [True, False])
def test_one_that_is_fed_again_stands_where_the_first_one_stood(
    steps: int, width: int, answered: bool
) -> None:
    first = Summing(width).ran(steps, answered)
    again = Summing(width).fed(first.history.save())
    assert again.sum == first.sum
    for name in ("steps", "open", "asked", "checksum"):
        assert getattr(again.history, name) == getattr(first.history, name), name
    assert np.array_equal(again.history.inputs, first.history.inputs)
    assert pack(again.history.save()) == pack(first.history.save())


def test_what_was_saved_stays_while_the_run_goes_on() -> None:
    one = Summing()
    one.ran(1500)
    saved = one.history.save()
    before = pack(saved)
    one.ran(1500)
    assert pack(saved) == before


def test_one_that_answers_otherwise_is_not_restored() -> None:
    saved = Summing().ran(10).history.save()
    with pytest.raises(
        ControllerError, match="summing cannot be restored: its 10 steps were repeated"
    ):
        Summing(start=1e-9).fed(saved)


def test_a_history_that_was_cut_says_so() -> None:
    saved = Summing(most_bytes=0).ran(1030).history.save()
    with pytest.raises(ControllerError, match="ran 1030 steps, and the inputs of the first 1024"):
        Summing().fed(saved)


def test_a_history_of_another_controller_is_refused() -> None:
    saved = Summing(2).ran(3).history.save()
    with pytest.raises(ControllerError, match="the inputs of the controller have changed"):
        steps_of(saved, 1, "other")


def test_one_that_is_silent_is_named() -> None:
    saved, silent = Summing().ran(3).history.save(), Summing()
    with pytest.raises(
        ControllerError, match=r"silent cannot be restored: .* no answer to the step of"
    ):
        feed(saved, silent.history, "silent", silent.send, lambda _: None)

"""Named streams: repeatable, independent of each other, saved as a whole."""

from __future__ import annotations

import json

import pytest

from rtsim.core.random_streams import RandomStreams


@pytest.mark.rule("named-streams")
def test_adding_a_stream_moves_no_other() -> None:
    alone = RandomStreams(7)
    first = alone.stream("wind").standard_normal(5)
    crowded = RandomStreams(7)
    crowded.stream("another").standard_normal(3)
    assert (crowded.stream("wind").standard_normal(5) == first).all()
    assert (RandomStreams(8).stream("wind").standard_normal(5) != first).any()


@pytest.mark.parametrize("drawn", range(6))
def test_save_and_restore_through_json(drawn: int) -> None:
    """Wherever it stands in the four words that a Philox makes at a time."""
    streams = RandomStreams(7)
    streams.stream("a").random(drawn)
    streams.stream("a").integers(10)  # leaves half a word behind, which is state too
    saved = json.loads(json.dumps(streams.save()))
    expected = [streams.stream("a").integers(10), *streams.stream("a").standard_normal(4)]
    other = RandomStreams(8)  # its seed is restored as well
    for restored in (streams, other):
        restored.restore(saved)
        again = [restored.stream("a").integers(10), *restored.stream("a").standard_normal(4)]
        assert again == expected
        assert restored.save()["seed"] == 7


def test_a_stream_made_since_the_save_starts_anew_after_a_restore() -> None:
    streams = RandomStreams(7)
    streams.stream("a").standard_normal(3)
    saved = streams.save()
    first = streams.stream("later").standard_normal(4)
    streams.restore(saved)
    assert list(streams.save()["streams"]) == ["a"]
    assert (streams.stream("later").standard_normal(4) == first).all()


def test_a_stream_that_was_not_there_yet_draws_by_the_restored_seed() -> None:
    saved = RandomStreams(7).save()
    other = RandomStreams(8)
    other.restore(saved)
    assert other.stream("wind").random() == RandomStreams(7).stream("wind").random()


def test_what_is_saved_is_plain_data_and_does_not_move_on() -> None:
    streams = RandomStreams(7)
    streams.stream("b")
    streams.stream("a").integers(10)
    saved = streams.save()
    before = json.dumps(saved)
    streams.stream("a").standard_normal(9)
    assert json.dumps(saved) == before
    assert list(saved["streams"]) == ["a", "b"]

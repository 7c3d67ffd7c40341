"""Named streams: repeatable, independent of each other, saved as a whole."""

from __future__ import annotations

import json

import pytest

from rtsim.random_streams import RandomStreams


@pytest.mark.rule("named-streams")
def test_adding_a_stream_moves_no_other() -> None:
    alone = RandomStreams(7)
    first = alone.stream("wind").standard_normal(5)
    crowded = RandomStreams(7)
    crowded.stream("another").standard_normal(3)
    assert (crowded.stream("wind").standard_normal(5) == first).all()
    assert (RandomStreams(8).stream("wind").standard_normal(5) != first).any()


def test_save_and_restore_through_json() -> None:
    streams = RandomStreams(7)
    streams.stream("a").standard_normal(3)
    streams.stream("a").integers(10)  # leaves half a word behind, which is state too
    saved = json.loads(json.dumps(streams.save()))
    expected = streams.stream("a").standard_normal(4)
    streams.stream("later").random()
    other = RandomStreams(7)
    for restored in (streams, other):
        restored.restore(saved)
        assert (restored.stream("a").standard_normal(4) == expected).all()

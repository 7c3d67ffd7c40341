"""Conformance checks for latency models."""

from __future__ import annotations

from rtsim.components.latency import LatencyModel
from rtsim.core.random_streams import RandomStreams


def check_latency(model: LatencyModel, draws: int = 200) -> None:
    """Assert the contract of :class:`rtsim.components.latency.LatencyModel`."""
    assert isinstance(model.ordered, bool), "ordered must be True or False"
    assert " at 0x" not in repr(model), (
        f"repr {model!r} changes with each run, but a replay compares it with the recorded one; "
        "make the class a dataclass, or define __repr__"
    )
    ours, same = RandomStreams(11).stream("x"), RandomStreams(11).stream("x")
    for size in (0, 8, 64):
        for _ in range(draws):
            delays = model.delays(ours, size)
            assert isinstance(delays, tuple), (
                "delays() must return a tuple with one delay for each copy of the message"
            )
            assert all(type(d) is int and d >= 0 for d in delays), (
                f"delays() must return integers >= 0, in ns; got {delays}"
            )
            assert delays == model.delays(same, size), (
                "delays() must depend only on the random stream and the size"
            )
    size_after, size_before = ours.bit_generator.state, same.bit_generator.state
    assert str(size_after) == str(size_before)

"""What every latency model keeps, checked on one that anybody brings."""

from __future__ import annotations

from rtsim.components.latency import LatencyModel
from rtsim.core.random_streams import RandomStreams


def check_latency(model: LatencyModel, draws: int = 200) -> None:
    """Assert the contract of :class:`rtsim.components.latency.LatencyModel`."""
    assert isinstance(model.ordered, bool), "ordered is True or False"
    assert " at 0x" not in repr(model), (
        f"a recording holds the model's repr, which a replay compares; {model!r} changes with each "
        "run: make the class a dataclass, or write __repr__"
    )
    ours, same = RandomStreams(11).stream("x"), RandomStreams(11).stream("x")
    for size in (0, 8, 64):
        for _ in range(draws):
            delays = model.delays(ours, size)
            assert isinstance(delays, tuple), "one delay for each copy, in a tuple"
            assert all(type(d) is int and d >= 0 for d in delays), (
                f"a delay is a whole number of ns, >= 0; got {delays}"
            )
            assert delays == model.delays(same, size), "draws from its stream and nothing else"
    size_after, size_before = ours.bit_generator.state, same.bit_generator.state
    assert str(size_after) == str(size_before)

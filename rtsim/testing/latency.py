"""Conformance checks for latency models."""

from __future__ import annotations

from rtsim.components.latency import (
    LatencyModel,
    for_one_run,
    latency_state,
    not_saved,
    put_latency_back,
)
from rtsim.core.random_streams import RandomStreams

SIZES = (0, 8, 64)


def check_latency(model: LatencyModel, draws: int = 200) -> None:
    """Assert the contract of :class:`rtsim.components.latency.LatencyModel`.

    Like a run, each check uses a copy of ``model``. ``draws`` is the number of delays that are
    drawn for each message size. Copies of a model must draw the same delays. A copy that is
    restored from a checkpoint must also draw the same delays.
    """
    assert isinstance(model.ordered, bool), "ordered must be True or False"
    assert " at 0x" not in repr(model), (
        f"repr {model!r} changes with each run, but a replay compares it with the recorded one; "
        "make the class a dataclass, or define __repr__"
    )
    first, position = _drawn(model, draws)
    # State outside the object may be periodic, and every pass takes the same number of draws.
    # Single draws shift the start of a pass to a number without a common divisor, in total and for
    # each size.
    for moved in (None, *SIZES):
        if moved is not None:
            _drawn(model, 1, (moved,))
        again, other = _drawn(model, draws)
        assert first == again, (
            "delays() must depend only on the random stream, the size, and attributes of the "
            "model: two runs with a copy of the model each drew different delays; keep state in "
            "attributes that __init__ sets, not in the class or the module"
        )
        assert str(position) == str(other), (
            "delays() must draw only from the stream that it is given"
        )
    if not any(not_saved(model)):
        # After half of the draws, much state has accumulated. After one draw, even periodic state
        # has changed.
        resumed, _ = _drawn(model, draws, resumed=(1, draws // 2))
        assert first == resumed, (
            "a copy that was restored from a checkpoint drew different delays; save() must include "
            "all state of the model"
        )


def _drawn(
    model: LatencyModel, draws: int, sizes: tuple[int, ...] = SIZES, resumed: tuple[int, ...] = ()
) -> tuple[list[tuple[int, ...]], object]:
    own, stream = for_one_run(model, "the check"), RandomStreams(11).stream("x")
    out: list[tuple[int, ...]] = []
    for size in sizes:
        for k in range(draws):
            if k in resumed:
                saved, own = latency_state(own), for_one_run(model, "the check")
                put_latency_back(own, saved)
            delays = own.delays(stream, size)
            assert isinstance(delays, tuple), (
                "delays() must return a tuple with one delay for each copy of the message"
            )
            assert all(type(d) is int and d >= 0 for d in delays), (
                f"delays() must return integers >= 0, in ns; got {delays}"
            )
            out.append(delays)
    return out, stream.bit_generator.state

"""What an exchange takes by the model, against what is counted in cycles on an emulated Uno."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from emulated_board_parts import need
from firmware_parts import random_inputs
from numpy.typing import NDArray
from test_measured_latency import recorded

from hitl.controllers.board import BoardController
from hitl.protocol.line import Budget
from rtsim.core.tag import Tag
from rtsim.record.measured import measured_latency

STEPS = 120
MODEL = 0.02
"""What it may be away from what is counted."""
SHIPPED = [
    ("hitl/starter/motor.toml:float", 500_000),
    ("hitl/examples/processor/level.toml", 500_000),
    ("firmware/core/pid.toml:single", 500_000),
    ("firmware/core/f16_control.toml:single", 500_000),
    ("firmware/core/f16_control.toml:single", 115_200),
]


@cache
def counted(reference: str, baud: int) -> tuple[NDArray[np.int64], NDArray[np.int64], Budget]:
    """In lockstep, ns of the board's cycles: exchanges, steps, and what the budget says."""
    need("avr8js")
    url = f"board:uno?baud={baud}"
    controller = BoardController(reference, url=url, cases=None).fresh()
    try:
        for k, inputs in enumerate(random_inputs(controller.inputs, STEPS)):
            tag = Tag(controller.interface.period.tick(2 * k))
            controller.send(tag, inputs)
            assert controller.receive(tag, 1.0) is not None
        budget = controller.budget
    finally:
        controller.close()
    return np.array(controller.exchange_ns), np.array(controller.took_ns), budget


@pytest.mark.parametrize(("reference", "baud"), SHIPPED)
def test_the_model_is_near_what_is_counted(reference: str, baud: int) -> None:
    exchanges, took, budget = counted(reference, baud)
    modelled = took + budget.request_ns + budget.handling_ns + budget.reply_ns
    assert np.abs(modelled / exchanges - 1.0).max() < MODEL
    assert budget.answered_ns == modelled.max()


@pytest.mark.parametrize(("reference", "baud"), SHIPPED)
def test_a_run_in_real_time_lends_the_latency_that_is_counted(reference: str, baud: int) -> None:
    """Its recording says what a paced board says of itself: sent, and the end of the step."""
    exchanges, took, budget = counted(reference, baud)
    about = BoardController(reference, url=f"board:uno?baud={baud}", paced=True).describe()
    said = {key: about[key] for key in ("received", "reply_ns", "handling_ns") if key in about}
    ended = (took + budget.request_ns).tolist()
    run = recorded(ended, latency=0.05, way_ns=30_000_000, **said)
    model = measured_latency(run, "law").model
    for share in (0.5, 0.99):
        real = float(np.quantile(exchanges, share))
        assert model.quantile(share) == pytest.approx(real, rel=MODEL)

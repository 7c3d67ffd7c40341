"""Steps before a paced run, for an emulator that is slow at first: none is left in the run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, nullcontext
from pathlib import Path

import numpy as np
import pytest

from hitl.boards.contract import BoardError
from hitl.controllers import board
from hitl.controllers.board import (
    MOST_STEPS,
    ROUNDS,
    BoardController,
    PacedLink,
    warm_up,
    warmed,
    warms_up,
)
from hitl.controllers.in_process import InProcess
from hitl.interface import Interface, load_interface
from hitl.protocol.messages import HelloReply
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag

PID = "firmware/core/pid.toml:single"


class Restarted(PacedLink):
    """A link that only counts its restarts."""

    def __init__(self) -> None:  # without a board
        self.restarts = 0

    def restart(self) -> None:
        self.restarts += 1


class Closed(PacedLink):
    """A link that only knows whether it was closed."""

    def __init__(self) -> None:  # without a board
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Counting:
    """A controller that fails, or is silent, in a certain step."""

    inputs, outputs, outside = Signals("x [m] = 0.5"), Signals("y [m]"), True
    interface: Interface

    def __init__(self, fails: int = 0, silent: int = 0) -> None:
        self.fails, self.silent = fails, silent
        self.seen: list[tuple[Tag, list[float]]] = []

    def send(self, tag: Tag, inputs: Vector) -> None:
        self.seen.append((tag, inputs.tolist()))

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        if len(self.seen) == self.fails:
            raise ControllerError("it failed")
        return None if len(self.seen) == self.silent else np.zeros(1)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("controller", "steps", "apart"),
    [
        (Counting(), [MOST_STEPS] * ROUNDS, ROUNDS * MOST_STEPS),
        (Counting(fails=3), [3] * ROUNDS, 4),
        (Counting(silent=4), [4], 4),
    ],
    ids=["answers", "fails", "is silent"],
)
def test_the_board_is_reset_after_the_steps_however_they_end(
    controller: Counting, steps: list[int], apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failure the inputs are the initial ones; ``apart`` is the number of values."""
    link = Restarted()
    monkeypatch.setattr(board, "MOST_NS", 10**15)
    met: list[Counting] = []

    def meet() -> Counting:
        met.append(Counting(controller.fails, controller.silent))
        return met[-1]

    warm_up(link, meet, 1.0)
    assert [len(each.seen) for each in met] == steps
    assert len({value for each in met for _, (value,) in each.seen}) == apart
    for each in met:
        tags = [tag for tag, _ in each.seen]
        assert tags == sorted(set(tags))
    assert link.restarts == len(steps)


def test_the_inputs_of_the_steps_are_within_their_type_and_range(tmp_path: Path) -> None:
    rows = 'a = { type = "uint8" }\nb = { type = "float32", initial = 5000.0, high = 5000.5 }'
    text = f'name = "law"\nperiod = "1/100"\nsources = []\n[code]\nstep = "y = a"\n[inputs]\n{rows}'
    (tmp_path / "law.toml").write_text(f"{text}\n[outputs]\ny = {{}}\n")
    controller = Counting()
    controller.interface = load_interface(tmp_path / "law.toml")
    controller.inputs = controller.interface.inputs
    warm_up(Restarted(), lambda: controller, 1.0)
    found = np.array([values for _, values in controller.seen])
    assert len(found) == ROUNDS * MOST_STEPS
    assert set(found[:, 0].tolist()) > {0.0, 1.0, 2.0}
    assert set(found[:, 0].tolist()) <= set(range(256))
    assert found[:, 1].min() < 4000.0 < found[:, 1].max() == 5000.5


def test_the_steps_end_after_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, times = Counting(), iter(range(100))
    monkeypatch.setattr(board, "MOST_NS", 7)
    monkeypatch.setattr(board, "ROUNDS", 1)
    monkeypatch.setattr(board, "stopwatch", lambda: next(times))
    warm_up(Restarted(), lambda: controller, 1.0)
    assert len(controller.seen) == 8


def test_only_an_emulator_that_compiles_while_it_runs_warms_up() -> None:
    urls = ("board:pico", "board:uno", "board:mega2560", "serial:///dev/a?board=pico")
    assert [warms_up(url) for url in urls] == [True, False, False, False]


@pytest.mark.live
@pytest.mark.usefixtures("pico")
def test_no_step_is_left_in_the_controller_of_a_pico_in_real_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run begins on a board that was reset, and its answers are those of the host's build."""
    host = InProcess(PID).fresh()
    before: list[HelloReply | None] = []

    def noted(link: PacedLink, meet: Callable[[], BoardController], silence: float) -> None:
        met: list[BoardController] = []

        def again() -> BoardController:
            met.append(meet())
            return met[-1]

        warm_up(link, again, silence)
        assert all(len(each.took_ns) > 5 for each in met)
        before.extend(each.board for each in met)

    monkeypatch.setattr(board, "warm_up", noted)
    with closing(BoardController(PID, url="board:pico", paced=True, cases=None).fresh()) as pico:
        rng = np.random.default_rng(3)
        for k in range(1, 6):
            inputs = rng.normal(size=host.inputs.size)
            for controller in (host, pico):
                controller.send(Tag(k * 10_000_000), inputs)
            wanted = host.receive(Tag(k * 10_000_000), 5.0)
            found = pico.receive(Tag(k * 10_000_000), 5.0)
            assert wanted is not None
            assert found is not None
            assert np.array_equal(wanted, found)
        assert len(pico.took_ns) == 5
        nonces = [hello.boot_nonce for hello in [*before, pico.board] if hello is not None]
        assert len(set(nonces)) == len(nonces) == ROUNDS + 1


@pytest.mark.parametrize(
    "error", [BoardError("it ended"), ControllerError("no answer"), KeyboardInterrupt()]
)
def test_an_emulator_that_ends_meanwhile_is_started_again(error: BaseException) -> None:
    links: list[Closed] = []

    def open_link() -> Closed:
        links.append(Closed())
        return links[-1]

    def meet(link: object) -> Counting:  # noqa: ARG001
        raise error

    again = not isinstance(error, KeyboardInterrupt)
    with nullcontext() if again else pytest.raises(KeyboardInterrupt):
        warmed(open_link, meet, 1.0)
    assert [link.closed for link in links] == ([True, False] if again else [True])

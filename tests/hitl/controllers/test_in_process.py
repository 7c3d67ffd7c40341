"""The fast path: C in this process, each controller with statics of its own.

Steps before a paced run, for an emulator that is slow at first: none is left in the run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hitl
from hitl.boards.contract import BoardError
from hitl.building.build import build
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
from hitl.controllers.sil import SilController
from hitl.interface import Interface, load_interface
from hitl.protocol.messages import HelloReply
from rtsim.core.errors import ControllerError, ScenarioError, ShapeError, UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario

EXAMPLES = Path(hitl.__file__).parent / "examples"
CORE = Path(hitl.__file__).parents[1] / "firmware" / "core"


def step(controller: InProcess | SilController, tag: int, *inputs: float) -> Vector:
    controller.send(Tag(tag), np.array(inputs))
    answer = controller.receive(Tag(tag), 10.0)
    assert answer is not None
    return answer


def counter(folder: Path, source: str = "", **more: str) -> Path:
    """It counts in a static variable of its source, and in a global one."""
    (folder / "c.c").write_text(
        source
        or "double total; double count(double x) { static double n; n += x; total += n; return n; }"
    )
    text = 'name = "c"\nperiod = 1\nsources = ["c.c"]\nheaders = ["c.h"]\n'
    text += "".join(f"{key} = {value}\n" for key, value in more.items())
    text += '[code]\nstep = "n = count(x)"\n[inputs]\nx = {}\n[outputs]\nn = {}\n'
    text += 'total = { c = "total" }\n'
    (folder / "c.h").write_text("extern double total; double count(double x);")
    (folder / "c.toml").write_text(text)
    return folder / "c.toml"


def test_each_has_statics_of_its_own(tmp_path: Path) -> None:
    design = InProcess(counter(tmp_path))
    with closing(design.fresh()) as one, closing(one.fresh()) as other:
        assert step(one, 0, 1.0).tolist() == [1.0, 1.0]
        assert step(one, 1, 1.0).tolist() == [2.0, 3.0]
        assert step(other, 0, 5.0).tolist() == [5.0, 5.0]
        assert step(one, 2, 1.0).tolist() == [3.0, 6.0]
        with closing(design.fresh()) as third:
            assert step(third, 0, 1.0).tolist() == [1.0, 1.0]


def test_no_copy_stays_behind_in_files_or_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "cache"))
    made = build(counter(tmp_path))
    before = set(os.listdir(made.folder.parent))
    for _ in range(20):
        with closing(InProcess(made).fresh()) as controller:
            step(controller, 0, 1.0)
            assert set(os.listdir(made.folder.parent)) == before
    if sys.platform == "linux":
        assert str(tmp_path) not in Path("/proc/self/maps").read_text()


def test_a_function_of_the_controller_is_not_the_c_librarys(tmp_path: Path) -> None:
    """A library's own ``y0`` and ``random`` would lose against those already loaded."""
    source = (
        "double total; double y0(double x) { return x + 1; } long random(void) { return 4; }"
        "double count(double x) { total = (double)random(); return y0(x); }"
    )
    file = counter(tmp_path, source, flags='["-fno-builtin"]')
    with closing(InProcess(file).fresh()) as fast, closing(SilController(file).fresh()) as slow:
        assert step(fast, 0, 2.0).tolist() == step(slow, 0, 2.0).tolist() == [3.0, 4.0]


def test_parameters_are_checked_and_set() -> None:
    file = EXAMPLES / "scalars/mixer.toml"
    with closing(InProcess(file, {"gain": 2.0}).fresh()) as controller:
        assert step(controller, 0, 0.5, 0.125).tolist() == [0.25, 0.75]
    with pytest.raises(UnknownName, match="gian"):
        InProcess(file, {"gian": 2.0})
    with pytest.raises(
        ControllerError, match=r"gain = 1e\+39 of mixer does not fit its type float32"
    ):
        InProcess(file, {"gain": 1e39}).fresh()
    with pytest.raises(ScenarioError, match="outside its range"):
        InProcess(EXAMPLES / "context/filter.toml", {"time_constant": -1.0})


def test_terminate_is_called_when_it_is_closed(tmp_path: Path) -> None:
    (tmp_path / "t.h").write_text("#include <stdio.h>\n")
    (tmp_path / "t.toml").write_text(
        'name = "t"\nperiod = 1\nsources = []\nheaders = ["t.h"]\n[code]\nstep = "y = x"\n'
        f'terminate = \'fclose(fopen("{tmp_path}/ended", "w"))\'\n'
        "[inputs]\nx = {}\n[outputs]\ny = {}\n"
    )
    controller = InProcess(tmp_path / "t.toml").fresh()
    assert not (tmp_path / "ended").exists()
    controller.close()
    assert (tmp_path / "ended").exists()
    controller.close()
    with pytest.raises(ControllerError, match="t is not loaded; use"):
        step(controller, 0, 1.0)


def test_what_it_does_not_do() -> None:
    file = EXAMPLES / "scalars/mixer.toml"
    design = InProcess(file)
    with pytest.raises(ControllerError, match="mixer is not loaded; use"):
        step(design, 0, 0.0, 0.0)
    with closing(design.fresh()) as controller:
        with pytest.raises(ControllerError, match="was called for the request of"):
            controller.receive(Tag(5), 0.0)
        for wrong in (1, 3):
            with pytest.raises(ShapeError, match=r"mixer: expected a vector of 2"):
                controller.send(Tag(0), np.zeros(wrong))


def test_builds_that_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(ControllerError, match="a sanitize build of mixer cannot be loaded"):
        InProcess(replace(build(EXAMPLES / "scalars/mixer.toml"), kind="sanitize"))
    fast = counter(tmp_path, flags='["-ffast-math"]')
    with pytest.raises(ControllerError, match="-ffast-math, which would flush denormal"):
        InProcess(fast)
    assert np.array([5e-324])[0] * 1.0 != 0.0


def test_it_says_what_it_is() -> None:
    design = InProcess(EXAMPLES / "scalars/mixer.toml")
    about = design.describe()
    assert about["type"] == "InProcess"
    assert about["schema"] == f"{design.interface.schema:016x}"
    assert (about["build"], about["variant"]) == ("plain", "")
    assert design.outside is False


def test_no_value_is_copied_out_and_times_are_kept() -> None:
    with closing(InProcess(EXAMPLES / "scalars/mixer.toml").fresh()) as controller:
        first = step(controller, 0, 0.5, 0.0)
        second = step(controller, 1, 0.25, 0.0)
        assert first is second  # a view: whoever keeps it copies it
        assert len(controller.took_ns) == 2
        assert min(controller.took_ns) > 0


@pytest.mark.parametrize("variant", ["", ":single"])
def test_it_answers_bit_by_bit_as_the_worker_does(variant: str) -> None:
    made = build(f"{CORE / 'pid.toml'}{variant}")
    rows = np.random.default_rng(3).normal(size=(200, 2))
    with closing(InProcess(made).fresh()) as fast, closing(SilController(made).fresh()) as slow:
        for k, row in enumerate(rows):
            np.testing.assert_array_equal(step(fast, k, *row), step(slow, k, *row))


def test_it_flies_as_the_design_does_and_is_replayed() -> None:
    tapes = []
    for replaced in (False, True):
        scenario = load_scenario("unstable", {"latency": "0.02"})
        if replaced:
            scenario.replace_controller("controller", InProcess(CORE / "unstable_control.toml"))
        recorder = MemoryRecorder()
        simulate(scenario, recorder=recorder, until=2)
        tapes.append(recorder.recording())
    flown, again = tapes[1], rerun(tapes[1])
    design, translation = (tape.track("plant").rows.floats for tape in tapes)
    np.testing.assert_allclose(translation, design, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(
        again.track("plant").rows.floats, flown.track("plant").rows.floats
    )
    assert flown.header["scenario"]["parts"]["controller"]["build"] == "plain"


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


@pytest.mark.long
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

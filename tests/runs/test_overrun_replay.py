"""Overruns reproduced from a recording, to the ns: each policy on purpose, recorded lateness."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from command_parts import Flown, Told
from fault_parts import ramp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loop_parts import MS, Paced, late, marks, scenario

from rtsim.cli.main import main
from rtsim.cli.replay import command
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.signals import Vector
from rtsim.engine.faults import read_faults
from rtsim.engine.faults.description import fault_of, write_faults
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.runs.replay import timing_faults
from rtsim.runs.simulation import Pace, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock
from rtsim.testing.clock import FAKE_START
from rtsim.testing.determinism import trace_of
from rtsim.timing.frames import REST
from rtsim.timing.policy import Abort, CatchUp, Freeze, Policy, Slip, parse_policy

STALLS = [late(name=f"s{k}", kind="stall", at=0.2 + 0.3 * k) for k in range(3)]
"""30 ms each, of frames of 10 ms."""


def overruns(recording: Recording) -> list[tuple[Any, ...]]:
    """All that is recorded of each; where no job is to blame a fault has its own name."""
    return [
        (e.tag.ns, dict(e.values), "" if e.source.startswith("fault.") else e.source)
        for e in recording.events
        if e.kind == "Overrun"
    ]


def again(recording: Recording, *args: Any, faults: Sequence[Any] = (), **more: Any) -> Paced:
    return Paced(scenario(*timing_faults(recording), *faults), *args, **more)


BOTH = (200, 210, 500, 510, 800, 810)
EACH = [
    # policy, resumed, (ms, ns late) of each overrun, wall ms, ms slipped, how it ended
    ("catch_up", False, [(k + 10, 20 - k % 100) for k in BOTH], 1000, 0, ""),
    ("catch_up:1", False, [(210, 20), (220, 10)], None, None, "late frames: 2, allowed: 1"),
    ("slip", False, [(210, 20), (510, 20), (810, 20)], 1060, 60, ""),
    ("slip:0", False, [(210, 20)], None, None, "late frames: 1, allowed: 0"),
    ("freeze:1", True, [(210, 20), (510, 20), (810, 20)], 1210, 210, ""),
    ("freeze:1", False, [(210, 20)], None, None, "nobody resumed it within 1 s"),
    ("abort", False, [(210, 20)], None, None, "late frames: 1, allowed: 0"),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "resumed", "expected", "wall", "slipped", "ended"), EACH)
def test_three_stalls_under_each_policy_and_again_from_the_record(
    policy: str, resumed: bool, expected: list[tuple[int, int]], wall: int | None,
    slipped: int | None, ended: str,
) -> None:  # fmt: skip
    answer = parse_policy(policy)
    run = Paced(scenario(*STALLS), answer, resumed=resumed)
    assert [(at, ns // MS) for at, _, ns, _ in run.overruns] == expected
    assert ended in run.error
    assert bool(ended) == bool(run.error)
    last = run.overruns[-1][-1]
    assert last == ("abort" if ended and "freeze" not in policy else answer.name)
    if wall is not None:
        assert run.certificate is not None
        assert run.clock.now() - FAKE_START == wall * MS
        assert run.certificate.slipped_ns == (slipped or 0) * MS
        each = len(expected) // 3
        assert run.certificate.blamed == {f"fault.s{k}": each for k in range(3)}
        assert run.certificate.overruns == {"compute": 3 * each, "wake": 0}
        assert run.certificate.injected == {f"s{k}": 30 * MS for k in range(3)}
    second = again(run.recording, answer, resumed=resumed)
    assert overruns(second.recording) == overruns(run.recording)
    assert second.frames == run.frames
    assert second.clock.now() == run.clock.now()


def test_what_a_stall_is_written_as() -> None:
    run = Paced(scenario(STALLS[0]))
    (fault,) = timing_faults(run.recording)
    assert fault.describe() == {
        "name": "stall_200000000", "where": "loop", "kind": "stall", "count": 1,
        "at": "1/5", "amount": "3/100",
    }  # fmt: skip
    assert timing_faults(Paced(scenario()).recording) == ()


_ns = st.integers(1, 60 * MS)
_at = st.integers(0, 999 * MS)
_jobs = st.sampled_from(["controller", "propagate", "recording"])


@st.composite
def _fault(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["stall", "late_wake", "slow_job", "load"]))
    where = f"loop.{draw(_jobs)}" if kind == "slow_job" else "loop"
    amount, at = f"{draw(_ns)}/1000000000", f"{draw(_at)}/1000000000"
    how_long = {"length" if kind == "load" else "count": draw(st.integers(1, 8))}
    return {"where": where, "kind": kind, "amount": amount, "at": at, **how_long}


_policies = st.sampled_from(
    [CatchUp(), CatchUp(2), CatchUp(0), Slip(), Slip(3), Freeze(1), Abort()]
)


@settings(
    max_examples=settings().max_examples // 25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    st.lists(_fault(), min_size=1, max_size=6), _policies,
    st.sampled_from([1.0, 0.3, 0.7, 3.0, 1 / 3, 12.5]), st.booleans(),
)  # fmt: skip
def test_any_day_is_played_again_to_the_ns(
    faults: list[dict[str, Any]], policy: Policy, rate: float, resumed: bool
) -> None:
    named = [{"name": f"f{k}", **fault} for k, fault in enumerate(faults)]
    resumed = resumed and isinstance(policy, Freeze)
    run = Paced(scenario(*named), policy, rate, resumed=resumed)
    second = again(run.recording, policy, rate, resumed=resumed)
    assert overruns(second.recording) == overruns(run.recording)
    assert second.error.partition("most of it")[0] == run.error.partition("most of it")[0]
    third = again(second.recording, policy, rate, resumed=resumed)
    assert marks(third.recording) == marks(second.recording)


class Bench:
    """A bench on which it is the law that computes too long, and the machine that wakes it late."""

    def __init__(self, lasts: dict[int, int], woken: Sequence[int] = ()) -> None:
        self.clock = FakeClock(late=woken)
        self._lasts = lasts
        self._ticks = 0

    def law(self, t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG002
        self.clock.advance(self._lasts.get(self._ticks, 0))
        self._ticks += 1
        y[0] = u[0]

    def fly(self, policy: Policy) -> Recording:
        built = ramp(self.law, step=0.01)
        return trace_of(built, pace=Pace(1.0, policy), clock=self.clock, compile=False)


LATE = {"catch_up": 750, "slip": 740}
"""ms of the tag of the 72nd wait: a frame that is late does not wait."""


@pytest.mark.parametrize("policy", [CatchUp(), Slip()])
def test_what_a_law_took_is_a_slow_job(policy: Policy) -> None:
    recording = Bench({2: 13_000_001, 5: 25_000_000}, [0] * 71 + [4_000_000]).fly(policy)
    found = timing_faults(recording)
    assert {(f.kind.name, f.where, f.at_ns, f.parameters["amount"]) for f in found} == {
        ("slow_job", "loop.controller", 200 * MS, 13_000_001.0),
        ("slow_job", "loop.controller", 500 * MS, 25_000_000.0),
        ("late_wake", "loop", LATE[policy.name] * MS, 4_000_000.0),
    }
    second = again(recording, policy)
    assert overruns(second.recording) == overruns(recording)
    assert {source for _, _, source in overruns(recording)} == {"controller", "wake"}


class DelayedStart(FakeClock):
    """A clock that delays the first tag, as a real clock does (``until_quiet``)."""

    def anchor(self, ns: int, own: int | None = None) -> None:
        first = own is None and not self.waits
        super().anchor(ns, self.now() + 2 * MS if first else own)


@pytest.mark.parametrize("policy", [CatchUp(), Slip(), Abort(), Freeze(1)])
@pytest.mark.parametrize("woken", [1, 900_000, 1_500_000])
def test_a_late_wake_of_the_first_tag(policy: Policy, woken: int) -> None:
    """1.5 ms is itself an overrun; the others only add to the lateness of the next tag."""
    clock = DelayedStart(late=[woken])
    stall = scenario(late(kind="stall", at=0, amount=0.0115))
    recorded = Paced(stall, policy, resumed=True, clock=clock)
    assert recorded.overruns
    assert (recorded.overruns[0][0] == 0) == (woken > MS)
    second = again(recorded.recording, policy, resumed=True)
    assert overruns(second.recording) == overruns(recorded.recording)


def test_a_late_wake_and_computing_share_the_blame_as_they_did() -> None:
    """The wake makes more than half of it in one case, less in the other; neither is an overrun."""
    for woken, busy, cause in ((900_000, 10_200_000, "wake"), (500_000, 10_600_000, "compute")):
        faults = [
            late(name="w", kind="late_wake", amount=woken / 1e9),
            late(name="c", kind="stall", amount=busy / 1e9),
        ]
        run = Paced(scenario(*faults))
        assert [(e.tag.ns // MS, e.values["cause"]) for e in run.events("Overrun")] == [
            (210, cause)
        ]
        kinds = sorted(f.kind.name for f in timing_faults(run.recording))
        assert kinds == ["late_wake", "stall"]
        assert overruns(again(run.recording).recording) == overruns(run.recording)


def test_pauses_and_rates_are_no_overruns_and_those_between_are_made_again() -> None:
    at: dict[int, list[Told]] = {
        300 * MS: [{"kind": "pause"}],
        400 * MS: [{"kind": "rate", "rate": 0.5}],
        700 * MS: [{"kind": "rate", "rate": "max"}],
        750 * MS: [{"kind": "rate", "rate": 1.0}],
    }
    run = Flown(scenario(*STALLS), at, lasts_ns=70 * MS)
    assert [wrong for _, wrong, _ in run.answers] == [""] * 5
    found = overruns(run.recording)
    assert len(found) >= 5
    assert overruns(again(run.recording).recording) == found


@pytest.mark.parametrize("rate", [50.0, 0.02])
def test_at_another_rate_the_frame_that_ended_the_run_is_made_again(rate: float) -> None:
    """Frames of 10 ms of simulated time; the wake is later by a fifth of one, on the wall clock."""
    wake = late(kind="late_wake", amount=0.002 / rate)
    run = Paced(scenario(wake), Abort(), rate)
    assert [(at, action) for at, *_, action in run.overruns] == [(200, "abort")]
    second = again(run.recording, Abort(), rate)
    assert overruns(second.recording) == overruns(run.recording)


def test_a_part_of_the_day() -> None:
    run = Paced(scenario(*STALLS))
    found = timing_faults(run.recording, 400 * MS, 600 * MS)
    assert [f.at_ns for f in found] == [500 * MS]


# -- as a file, and by command


def test_a_fault_file_that_is_written_is_read_again_to_the_ns(tmp_path: Path) -> None:
    faults = [
        fault_of(late(kind="stall", at="123456.123456789", amount="1/1000000000")),
        fault_of(late(name="g", kind="load", length=3, every="1/60", seed=4)),
        fault_of(
            {"name": "h", "where": "a.b", "kind": "offset", "amount": -0.1, "when": "a.b > 1"}
        ),
    ]
    write_faults(tmp_path / "f.toml", faults, ["told"])
    assert read_faults(tmp_path / "f.toml") == tuple(faults)
    assert 'at = "123456.123456789"' in (tmp_path / "f.toml").read_text()
    with pytest.raises(ScenarioError, match="--force"):
        write_faults(tmp_path / "f.toml", faults)
    write_faults(tmp_path / "f.toml", faults[:1], force=True)
    assert len(read_faults(tmp_path / "f.toml")) == 1
    with pytest.raises(ScenarioError, match="give another path"):
        write_faults(tmp_path / "none" / "f.toml", faults)
    with pytest.raises(ScenarioError, match="at most 1000"):
        write_faults(tmp_path / "g.toml", faults * 400)


def recorded(path: Path, built: Scenario, policy: Policy, clock: FakeClock | None) -> Path:
    pace = Pace(None if clock is None else 1.0, policy)
    with FileRecorder(path, lambda: 0) as recorder:
        simulate(built, recorder=recorder, pace=pace, clock=clock)
    return path


def told(*words: str | Path, status: int = 0) -> str:
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == status, result.output
    return " ".join(result.output.split())


def test_the_command_writes_a_file_that_makes_the_same_overruns(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run.mcap", scenario(*STALLS), Slip(), FakeClock())
    file = tmp_path / "bad.toml"
    text = told("overrun-replay", run, "-o", file)
    assert f"{file}: 3 timing faults that reproduce 3 overruns" in text
    assert "next: rtsim run SCENARIO --until 1 --pace 1 --overrun slip:1000" in text
    assert f"--faults {file}" in text
    second = Paced(scenario(file), Slip())
    assert overruns(second.recording) == overruns(Recording.open(run))
    assert "--force" in told("overrun-replay", run, "-o", file, status=2)
    part = told(
        "overrun-replay", run, "-o", file, "--force", "--from", "0.4", "--to", "0.6", "--json"
    )
    assert '"faults": 1, "overruns": 1' in part
    text = told("overrun-replay", run, "--from", "0.9", "--to", "0.1", status=2)
    assert "--from 0.9 is after --to 0.1" in text
    assert "from 0.9 to 1 s, so there is no overrun to reproduce" in told(
        "overrun-replay", run, "--from", "0.9", status=2
    )


def test_nothing_but_a_fault_file_is_written_over(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run.mcap", scenario(*STALLS), Slip(), FakeClock())
    other = recorded(tmp_path / "other.mcap", scenario(), Slip(), FakeClock())
    (tmp_path / "link.toml").symlink_to(run)
    (tmp_path / "mine.toml").write_text("[project]\nname = 'mine'\n")
    (tmp_path / "empty.toml").touch()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for path, says in {
        run: "would overwrite the recording itself",
        tmp_path / "link.toml": "would overwrite the recording itself",
        other: "is not a fault file",
        tmp_path / "mine.toml": "is not a fault file",
    }.items():
        assert says in told("overrun-replay", run, "-o", path, "--force", status=2)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    told("overrun-replay", run, "-o", tmp_path / "empty.toml", "--force")


def test_the_next_command_is_typed_as_a_shell_reads_it(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run.mcap", scenario(*STALLS), Slip(), FakeClock())
    recording = Recording.open(run)
    recording.header["scenario"]["origin"] = {
        "reference": "my rigs/a.py:rig", "settings": {"name": "a b; c"}
    }  # fmt: skip
    words = shlex.split(command(recording, Path("bad day.toml")))
    assert words[:3] == ["rtsim", "run", "my rigs/a.py:rig"]
    assert words[words.index("--set") + 1] == "name=a b; c"
    assert words[words.index("--faults") + 1] == "bad day.toml"
    assert words[words.index("--until") + 1] == "1"


def test_the_command_says_what_it_cannot_do(tmp_path: Path) -> None:
    calm = recorded(tmp_path / "calm.mcap", scenario(), CatchUp(), FakeClock())
    assert "no overrun from 0 to 1 s" in told("overrun-replay", calm, status=2)
    unpaced = recorded(tmp_path / "fast.mcap", scenario(), CatchUp(), None)
    assert "--pace 1" in told("overrun-replay", unpaced, status=2)
    lost = {"name": "lost", "where": "controller", "kind": "drop"}
    overload = late(name="o", kind="slow_job", where="loop.propagate", at=0, amount=0.00101)
    slow = ramp(step=0.0008)
    slow.faults(lost, overload)
    day = recorded(tmp_path / "over.mcap", slow, Slip(10**6), FakeClock())
    text = told("overrun-replay", day, "-o", tmp_path / "o.toml", status=2)
    assert "a fault file holds at most 1000; select fewer overruns with --from T and --to T" in text
    assert not (tmp_path / "o.toml").exists()
    text = told("overrun-replay", day, "-o", tmp_path / "o.toml", "--to", "0.1")
    assert "add their fault files with --faults: lost" in text


@pytest.mark.long
def test_what_lies_outside_the_named_jobs_is_a_stall() -> None:
    bench = Bench({})
    built = ramp(bench.law, step=0.01)

    def show(progress: Any) -> None:
        if progress.ns == 400 * MS:
            bench.clock.advance(17 * MS)

    pace = Pace(1.0)
    recording = trace_of(built, pace=pace, clock=bench.clock, compile=False, observe=show)
    assert [(ns // MS, source) for ns, _, source in overruns(recording)] == [(410, REST)]
    (fault,) = timing_faults(recording)
    assert (fault.kind.name, fault.at_ns, fault.parameters["amount"]) == ("stall", 400 * MS, 17e6)


def test_a_recording_that_was_cut_off_cannot_be_reproduced(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run.mcap", scenario(*STALLS), CatchUp(), FakeClock())
    data = run.read_bytes()
    run.write_bytes(data[: len(data) * 2 // 3])
    with pytest.raises(RecordingError, match="needs the complete recording of a paced run"):
        timing_faults(Recording.open(run))

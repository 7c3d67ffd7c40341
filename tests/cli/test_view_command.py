"""``rtsim view`` and ``--view tcp://``: what is refused, with what to type; what help says."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from rtsim.cli import main
from rtsim.cli.run_options import FOR_A_PERSON
from rtsim.cli.window import HERE, Viewable, Viewed, safe_values, told_of
from rtsim.core.net.sockets import keys_of
from rtsim.gateway.registry import RUNS, VIEWED, RegisteredRun, enter, runs
from rtsim.pilot.processes import Window
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.standard_components import ExternalInputComponent
from rtsim.timing.policy import Slip, parse_policy


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path / "runtime"))


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == 2, result.output
    return result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("view",), "no run can be viewed; start one with: rtsim run SCENARIO --view"),
        (("view", "--keys", "k"), "--keys k works only with an address tcp://HOST:PORT"),
        (("view", "tcp://127.0.0.1:5998"), "needs the client key file"),
        (("view", "tcp://127.0.0.1:5998", "--keys", "none"), "none: No such file"),
        (("run", "ball", "--view", "tcp://127.0.0.1:5998"), "5998 needs keys"),
        (("run", "ball", "--view", "tcp://0.0.0.0:5998"), "rtsim keys view.keys"),
        (("run", "ball", "--view=tcp://nowhere"), "write tcp://HOST:PORT"),
        (("run", "ball", "--view", "ipc:///x"), "write tcp://HOST:PORT"),
        (("run", "ball", "--view", "127.0.0.1:5998"), "write tcp://HOST:PORT"),
        (("view", "127.0.0.1:5998"), "write tcp://127.0.0.1:5998"),
        (("run", "ball", "--view", "--view-keys", "k"), "--view-keys k works only"),
        (("run", "ball", "--view-keys", "k"), "--view-keys k works only with --view"),
        (
            ("fly", "f16", "--view", "tcp://127.0.0.1:5998"),
            "any client at this address can control",
        ),
    ],
)
def test_mistakes(arguments: tuple[str, ...], told: str) -> None:
    assert told in refused(*arguments)


def test_a_window_elsewhere_has_no_options_of_a_window_here(tmp_path: Path) -> None:
    keys_of(tmp_path / "k")
    served = ("--view", "tcp://127.0.0.1:5998", "--view-keys", "k")
    for more in (("--headless",), ("--frames", "x"), ("--fps", "30")):
        assert "work only with a window on this machine" in refused("run", "ball", *served, *more)
    assert "give them to rtsim view" in refused("fly", "f16", *served, "--mapping", "m.toml")
    clients = ("--view", "tcp://127.0.0.1:5998", "--view-keys", "k.client")
    assert "k.client contains no client key" in refused("run", "ball", *clients)


def test_an_address_belongs_to_view_and_a_scenario_does_not() -> None:
    @click.command(cls=Viewable)
    @click.argument("scenario")
    @click.option("--view", default="")
    def command(scenario: str, view: str) -> None:
        click.echo(f"{scenario} {view}")

    def said(*arguments: str) -> str:
        return CliRunner().invoke(command, list(arguments)).stdout.strip()

    assert said("ball") == "ball"
    assert said("ball", "--view") == said("--view", "ball") == f"ball {HERE}"
    for place in ("tcp://h:1", "ipc://h"):
        assert said("--view", place, "ball") == said("ball", f"--view={place}") == f"ball {place}"


def test_which_of_several_runs_is_asked(tmp_path: Path) -> None:
    enter(RegisteredRun(os.getpid(), os.getpid(), "ball", str(tmp_path / "none")), VIEWED)
    assert runs(RUNS) == []
    assert "none cannot be opened" in refused("view", "ball")
    assert "no run 'orbit' is in progress; runs in progress: " in refused("view", "orbit")
    enter(RegisteredRun(os.getppid(), os.getpid(), "orbit", str(tmp_path / "none")), VIEWED)
    assert "several runs are in progress; name one of " in refused("view")


def test_help_tells_the_pace_and_the_policy_that_hold() -> None:
    flown, run, view = (
        " ".join(CliRunner().invoke(main, [name, "--help"]).stdout.split())
        for name in ("fly", "run", "view")
    )
    assert "(as fast as possible). [default: 1.0]" in flown
    assert f"[default: {FOR_A_PERSON}]" in flown
    assert "(as fast as possible). [default: max]" in run
    assert f"--pace 1 and --overrun {FOR_A_PERSON}" in run
    assert "opens a new window" in flown
    assert "tcp://HOST:PORT" in view


def test_a_stall_is_not_made_up_for_and_a_slow_machine_goes_on() -> None:
    policy = parse_policy(FOR_A_PERSON)
    assert isinstance(policy, Slip)
    assert policy.max_frames >= 60 * 1000  # a minute at 1 kHz


def figures(**more: Any) -> dict[str, Any]:
    nothing = {"window_lost": False, "ended_there": False, "unattended": False, "skipped": 0}
    return {"frames": 5, "frames_dropped": 1, **nothing, **more}


def test_a_stick_without_its_window_goes_to_the_safe_values_of_the_mapping(tmp_path: Path) -> None:
    scenario = load_scenario("f16-by-hand", {})
    own = safe_values(scenario, "stick", None)
    part = scenario.component("stick")
    assert isinstance(part, ExternalInputComponent)
    assert own.tolist() == part.external_input.signals.initial().tolist()
    path = tmp_path / "mine.toml"
    path.write_text("[pitch]\nsafe = -0.25\n[throttle]\nsafe = 0.75\n")
    assert safe_values(scenario, "stick", path).tolist() == [-0.25, 0.0, 0.0, 0.75, *[0.0] * 5]
    viewed = Viewed(Window(mapping=path), lambda _: "stick")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(viewed, "_child", lambda _: nullcontext(SimpleNamespace(running=True)))
        with viewed.watch(scenario, None):
            (cockpit,) = viewed._cockpits
            assert cockpit.stick is not None
            assert cockpit.stick.safe.tolist() == [-0.25, 0.0, 0.0, 0.75, *[0.0] * 5]


def test_a_mapping_is_read_before_a_window_is_open() -> None:
    Path("mine.toml").write_text("[pitch]\nkeyboard = { minus = 'upp', plus = 'down' }\n")
    told = refused("fly", "f16", "--no-record", "--mapping", "mine.toml")
    assert "mine.toml:2: pitch.keyboard: unknown key 'upp'; did you mean up" in told


def test_the_summary_has_the_figures_of_the_window() -> None:
    assert told_of(figures()) == ["window: 5 frames, 1 dropped"]
    told = " ".join(
        told_of(figures(window_lost=True, ended_there=True, unattended=True, skipped=3))
    )
    for words in (
        "closed before the end",
        "ended from the window with Esc",
        "paused, and no window was open for 60 s",
        "3 malformed messages",
    ):
        assert words in told


def test_a_run_that_cannot_be_entered_is_viewed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runtime").write_text("in the way")
    child = SimpleNamespace(running=True)

    class Beside:
        def __enter__(self) -> object:
            return child

        def __exit__(self, *_: object) -> None:
            pass

    viewed = Viewed(Window())
    monkeypatch.setattr(viewed, "_child", lambda _: Beside())
    with viewed.watch(load_scenario("ball", {}), None) as (publisher, inbox):
        assert publisher is not None
        assert inbox.closed == ""
    assert "rtsim view cannot find this run" in capsys.readouterr().err

"""The page's process beside a run: the trace is the same, and a killed page ends no run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner

pytest.importorskip("viser")

from gateway_parts import live
from web_parts import browser
from websockets.exceptions import ConnectionClosed

from rtsim.cli.main import main
from rtsim.core.errors import RtsimError
from rtsim.gateway.addresses import PageAddress
from rtsim.gateway.pipe import Order, WebPage, page_line
from rtsim.models import orbit, unstable
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.runs.simulation import simulate


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path))


def test_without_the_extra_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    for words in (["run", "no-such-scenario", "--web"], ["web"]):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2
        assert "--web needs the package viser" in done.output
        assert "pip install 'rtsim[web]'" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--web", "orbit"], "write the scenario before --web"),
        (["run", "orbit", "--web", "70000"], "is not a port"),
        (["web", "x.mcap", "--control"], "only with a run in progress"),
        (["web", "x.mcap"], "x.mcap"),
        (["web"], "no run can be reached"),
    ],
)
def test_mistakes_are_named(words: list[str], message: str) -> None:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert message in done.output


@pytest.mark.full
@pytest.mark.live
def test_the_trace_is_that_of_a_run_without_a_page(tmp_path: Path) -> None:
    with_page, without = tmp_path / "page.mcap", tmp_path / "without.mcap"
    command = [sys.executable, "-m", "rtsim", "run", "unstable", "--plain", "--pace", "1"]
    run = subprocess.Popen(
        [*command, "--until", "1.5", "--web", "--json", "-o", str(with_page)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert run.stderr is not None
    while "web page:" not in (line := run.stderr.readline()):
        assert line, "no address"
    port, token = line.split()[-1].removeprefix("http://127.0.0.1:").rstrip("/").split("/")
    with browser(PageAddress(int(port), token)) as one:
        assert one.recv(20)
        out, _ = run.communicate(timeout=60)
    told = json.loads(out)["web"]
    assert told["lost"] == ""
    with FileRecorder(without) as recorder:
        simulate(unstable.scenario(), until=1.5, recorder=recorder, compile=False)
    assert Recording.open(with_page).digest() == Recording.open(without).digest()


@pytest.mark.live
def test_a_killed_page_is_named_and_the_run_goes_on() -> None:
    with live(unstable.scenario()) as run:
        page = WebPage(Order(run=str(os.getpid()), wait_s=30))
        with page:
            os.kill(page.pid, signal.SIGKILL)
            os.waitid(os.P_PID, page.pid, os.WEXITED | os.WNOWAIT)
            before = run.status.ns
            time.sleep(0.05)
            assert run.status.ns > before
        found = page.figures()
        assert found["lost"] == "was ended by SIGKILL"
        assert "the run continued without it" in page_line(found)
        run.pause()


@pytest.mark.live
def test_a_page_of_a_run_ends_with_the_run() -> None:
    with ExitStack() as stack:
        with live(orbit.scenario()):
            page = stack.enter_context(WebPage(Order(run=str(os.getpid()), control=True)))
            with browser(page.address) as one:
                assert one.recv(10)
        assert page.wait().startswith("the run was ended by the command quit at ")
    assert page.figures()["lost"] == ""
    assert page_line({"browsers": 2, "refused": 1, "lost": ""}) == (
        "web page: 2 browsers, 1 requests refused"
    )


def test_a_run_that_is_not_there_ends_the_page_at_once() -> None:
    with pytest.raises(RtsimError, match="no run"), WebPage(Order(run="nobody")):
        pass


def test_the_page_of_a_recording_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    wrong: Any = tmp_path / "wrong.mcap"
    wrong.write_bytes(b"no recording")
    with pytest.raises(RtsimError, match=r"wrong\.mcap"), WebPage(Order(recording=str(wrong))):
        pass


FAILS = """
from rtsim import Model, Scenario, Signals

def falls(t, x, z, u, p, dx):
    dx[0] = -1.0 if t < 1.0 else 1.0 / (t - t)

def scenario():
    out = Scenario("falls", until=20.0)
    out.plant("box", Model("box", Signals("a"), falls), step=0.01)
    return out
"""


@pytest.mark.live
@pytest.mark.parametrize(
    ("until", "said"),
    [("20", b"the run ended in an error at "), ("0.5", b"the run reached its end at 0.5 s")],
)
def test_browsers_are_told_when_and_why_the_run_ended(
    until: str, said: bytes, tmp_path: Path
) -> None:
    (tmp_path / "falls.py").write_text(FAILS)
    command = [sys.executable, "-m", "rtsim", "run", "falls.py", "--plain", "--no-record"]
    run = subprocess.Popen(
        [*command, "--pace", "0.5", "--until", until, "--web"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert run.stderr is not None
    while "web page:" not in (line := run.stderr.readline()):
        assert line, "no address"
    port, token = line.split()[-1].removeprefix("http://127.0.0.1:").rstrip("/").split("/")
    heard: list[bytes] = []
    with browser(PageAddress(int(port), token)) as one, suppress(ConnectionClosed):
        while True:
            data = one.recv(30)
            assert isinstance(data, bytes)
            packed = data[16:]  # behind the sizes
            heard.append(zstandard.ZstdDecompressor().decompress(packed))
    run.communicate(timeout=60)
    shown = [data for data in heard if said in data]
    assert shown
    assert b"overruns" in shown[0]

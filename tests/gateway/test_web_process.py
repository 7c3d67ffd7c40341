"""The page's process beside a run: the trace is the same, and a killed page ends no run.

Who may open the page of a run: token, origin, host, limits; and slow and hostile browsers.
"""

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

import asyncio
import socket
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest
import viser
from gateway_parts import live
from web_parts import browser, served
from websockets.asyncio.client import connect
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.http11 import Request

from rtsim.cli.main import main
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.gateway.addresses import PageAddress, open_port
from rtsim.gateway.pipe import Order, WebPage, page_line
from rtsim.gateway.web.guard import MOST_ASKED, MOST_VIEWERS, Guard, guarded_server
from rtsim.models import orbit, unstable
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.runs.simulation import simulate


def test_a_missing_viser_is_an_error_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "viser", None)
    for words in (["run", "no-such-scenario", "--web"], ["web"]):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2
        assert "--web needs the package viser" in done.output
        assert "pip install 'rtsim[web]'" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--web", "orbit"], "if 'orbit' is the scenario, write it before --web"),
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


def test_the_page_of_a_damaged_recording_is_an_error_that_names_the_file(tmp_path: Path) -> None:
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


@pytest.mark.sample(1)
@pytest.mark.live
@pytest.mark.parametrize(
    ("until", "said"),
    [("20", b"the run ended in an error at "), ("0.5", b"the run reached its end at 0.5 s")],
)
def test_browsers_show_when_and_why_the_run_ended(until: str, said: bytes, tmp_path: Path) -> None:
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


pytest.importorskip("viser")


PROTOCOL: Any = f"viser-v{viser.__version__}"


def asked(path: str, *lines: tuple[str, str]) -> Request:
    return Request(path, Headers([("Host", "127.0.0.1:8760"), *lines]))


@pytest.mark.parametrize(
    ("path", "lines", "why"),
    [
        ("/secret/", [], ""),
        ("/secret", [], ""),
        ("/secret/?x=1", [], ""),
        ("/secret", [("Origin", "http://127.0.0.1:8760")], ""),
        ("/", [], "no valid token"),
        ("/secre/", [], "no valid token"),
        ("/secrets/", [], "no valid token"),
        ("/x?token=secret", [], "no valid token"),
        ("/%73ecret/", [], "no valid token"),
        ("/secr\u00e9t/", [], "no valid token"),
        ("/secret", [("Origin", "https://evil.example")], "evil.example"),
        ("/secret", [("Origin", "null")], "may not open"),
        ("/secret", [("Origin", "http://127.0.0.1:9999")], "may not open"),
        ("/secret", [("Origin", "https://127.0.0.1:8760")], "may not open"),
        ("/secret", [("Origin", "http://127.0.0.1:8760.evil.example")], "may not open"),
        ("/secret", [("Origin", "http://a"), ("Origin", "http://b")], "repeats a header"),
    ],
)
def test_requests_need_the_token_and_the_page_as_their_origin(
    path: str, lines: list[tuple[str, str]], why: str
) -> None:
    found = Guard("secret").objection(asked(path, *lines))
    assert why in found
    assert bool(found) is bool(why)


@pytest.mark.parametrize(
    ("host", "let_in"),
    [
        ("127.0.0.1:8760", True),
        ("localhost:1234", True),
        ("[::1]:8760", True),
        ("evil.example:8760", False),
        ("localhost.evil.example", False),
        ("shop.localhost:8760", False),
        ("localhost.:8760", False),
        ("192.168.1.4:8760", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_a_name_that_leads_here_is_not_this_machine(host: str, let_in: bool) -> None:
    request = Request("/secret/", Headers([("Host", host), ("Origin", f"http://{host}")]))
    assert (not Guard("secret").objection(request)) is let_in


def _status(url: str, **lines: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=lines), timeout=5) as got:
            assert "frame-ancestors 'none'" in got.headers["Content-Security-Policy"]
            assert got.headers["Referrer-Policy"] == "no-referrer"
            return int(got.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_the_page_and_its_socket_need_token_and_origin() -> None:
    with served() as (_, address, guard):
        root = f"http://127.0.0.1:{address.port}"
        assert _status(address.url) == 200
        assert _status(address.url.rstrip("/")) == 200, "the browser is sent to the page"
        assert _status(f"{root}/") == 403
        assert _status(f"{root}/{'x' * len(address.token)}/") == 403
        assert _status(address.url, Origin="https://evil.example") == 403
        assert _status(address.url, Host="evil.example") == 403
        assert _status(f"{address.url}../../etc/passwd") in (403, 404)
        before = guard.refused
        for url in (root.replace("http", "ws"), f"ws://127.0.0.1:{address.port}/wrong"):
            with pytest.raises(InvalidStatus, match="403"):
                _open(url)
        with pytest.raises(InvalidStatus, match="403"):
            browser(address, origin="https://evil.example")
        assert guard.refused == before + 3
        with browser(address, origin=root) as one:
            assert one.recv(5)


def _open(url: str) -> None:
    from websockets.sync.client import connect as open_socket

    open_socket(url, subprotocols=[PROTOCOL], proxy=None).close()


def test_fifty_browsers_see_the_same_and_a_crowd_is_refused() -> None:
    async def watch(address: PageAddress) -> int:
        url = address.url.replace("http", "ws", 1).rstrip("/")
        how: Any = {"subprotocols": [PROTOCOL], "max_size": None, "proxy": None}
        opened = [await connect(url, **how) for _ in range(MOST_VIEWERS)]
        with pytest.raises(InvalidStatus, match="503"):
            await connect(url, **how)
        got = await asyncio.gather(*(asyncio.wait_for(one.recv(), 10) for one in opened))
        await asyncio.gather(*(one.close() for one in opened))
        return sum(len(data) > 0 for data in got)

    with served() as (server, address, _):
        server.gui.add_markdown("hello")
        assert asyncio.run(watch(address)) == MOST_VIEWERS >= 50
        with browser(address) as again:
            assert again.recv(10), "a place is free again"


def test_a_browser_that_stops_reading_delays_no_other_and_fills_no_memory() -> None:
    with served() as (server, address, _):
        chart = server.gui.add_uplot(
            data=tuple(np.zeros(20_000) for _ in range(5)), series=({},) * 5
        )
        small = socket.create_connection(("127.0.0.1", address.port))
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        with browser(address, sock=small, max_queue=1), browser(address) as reading:
            reading.recv(10)
            got = 0
            for k in range(40):  # 800 kB each
                chart.data = tuple(np.full(20_000, k + 0.5 * n) for n in range(5))
                got += len(reading.recv(10))
            assert got > 10 * 800_000, "the other one goes on"
            waiting = [
                c.transport.get_write_buffer_size()
                for c in server._websock_server._live_connections.values()
            ]
            assert max(waiting) < 3_000_000, "one update and a part of the next, not all 40"
            assert len(server._websock_server._broadcast_buffer.message_from_id) < 40
            small.shutdown(socket.SHUT_RDWR)


def test_a_message_that_is_too_long_or_damaged_ends_its_own_connection() -> None:
    with served() as (server, address, _), browser(address) as good:
        server.gui.add_markdown("hello")
        assert good.recv(5)
        with browser(address) as long:
            long.send(b"x" * (MOST_ASKED + 1))
            assert _ended(long) == 1009, "too big"
        with browser(address) as nonsense:
            nonsense.send(b"\x00nonsense")
            assert _ended(nonsense)
        server.gui.add_markdown("still here")
        assert good.recv(5)


def _ended(connection: Any) -> int:
    """The code with which the server closes ``connection`` behind what it has sent, or 0."""
    try:
        for _ in range(100):
            connection.recv(10)
    except ConnectionClosed as closed:
        return 0 if closed.rcvd is None else closed.rcvd.code
    return 0


def test_the_share_button_does_nothing() -> None:
    with served() as (server, _, _):
        assert server.request_share_url() is None
        assert server._share_tunnel is None


def test_a_viser_that_starts_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        def __init__(self, **_: Any) -> None:
            self.stopped = False

        def stop(self) -> None:
            self.stopped = True

    monkeypatch.setattr(viser, "ViserServer", Other)
    with open_port(None) as listener, pytest.raises(RtsimError, match="cannot check who opens"):
        guarded_server(listener, Guard("x"), "x")


def test_a_port_of_the_user_is_not_replaced_and_the_usual_one_is() -> None:
    with open_port(None) as first, open_port(None) as second:
        taken = int(first.getsockname()[1])
        assert second.getsockname()[0] == "127.0.0.1"
        assert second.getsockname()[1] != taken
        with pytest.raises(ScenarioError, match="in use"):
            open_port(taken)


def test_the_address_has_the_ssh_command_that_forwards_its_port() -> None:
    lines = PageAddress(8760, "abc").lines()
    assert lines[0].endswith("http://127.0.0.1:8760/abc/")
    assert "ssh -L 8760:127.0.0.1:8760" in lines[1]


def test_tokens_differ() -> None:
    with open_port(None) as listener:
        tokens = {PageAddress.of(listener).token for _ in range(10)}
    assert len(tokens) == 10
    assert min(map(len, tokens)) >= 21
    assert threading.active_count() < 100

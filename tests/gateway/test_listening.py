"""Where viewers connect: this machine alone, unless a word says otherwise."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from click.testing import CliRunner

from rtsim.cli.main import main
from rtsim.core.errors import ScenarioError
from rtsim.gateway.addresses import check_foxglove, listen

OPEN = [
    "0.0.0.0:8765",
    "[::]:8765",
    "192.0.2.7:8765",
    "[2001:db8::1]:8765",
    "[::ffff:192.0.2.7]:8765",
]
HERE = ["8765", ":8765", "127.0.0.1:8765", "localhost:8765", "127.1.2.3:8765", "[::1]:8765"]


@pytest.mark.parametrize("at", OPEN)
def test_beyond_this_machine_is_refused_with_what_to_type(at: str) -> None:
    pytest.importorskip("foxglove")
    told = CliRunner().invoke(main, ["run", "unstable", "--no-record", "--foxglove", at])
    assert told.exit_code == 2
    assert f"--foxglove {at} would serve other machines without encryption" in told.stderr
    assert "ssh -N -L 8765:127.0.0.1:8765" in told.stderr
    assert "--foxglove-unencrypted" in told.stderr


@pytest.mark.parametrize("at", HERE)
def test_this_machine_needs_no_word(at: str) -> None:
    pytest.importorskip("foxglove")
    check_foxglove(at)


def test_by_the_word_it_is_served() -> None:
    pytest.importorskip("foxglove")
    check_foxglove("0.0.0.0:8765", unencrypted=True)
    with listen("0.0.0.0:" + _free(), unencrypted=True) as end:
        assert end.getsockname()[0] == "0.0.0.0"


def test_the_word_alone_is_refused() -> None:
    told = CliRunner().invoke(main, ["run", "unstable", "--no-record", "--foxglove-unencrypted"])
    assert told.exit_code == 2
    assert "works only with --foxglove HOST:PORT" in told.stderr


def test_what_is_bound_counts_and_not_what_a_name_stood_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name may stand for another address when it is served."""

    def resolved(*_: Any) -> list[Any]:
        return [(0, 0, 0, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    at = "0.0.0.0:" + _free()
    with pytest.raises(ScenarioError, match="would serve other machines"):
        listen(at)


def _free() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])

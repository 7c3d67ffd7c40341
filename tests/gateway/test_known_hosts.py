"""``localhost`` on a system that cannot resolve it: a minimal Linux without an entry for it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from hitl.buses import open_frame_link
from rtsim.core.errors import ScenarioError
from rtsim.core.net import known_host
from rtsim.gateway.addresses import check_exposure, read_address
from rtsim.pilot.flightgear import Address, Sender


@pytest.fixture(autouse=True)
def minimal(monkeypatch: pytest.MonkeyPatch) -> None:
    found: Callable[..., Any] = socket.getaddrinfo

    def without(host: str, *rest: Any, **options: Any) -> Any:
        if host == "localhost":
            raise socket.gaierror(-2, "Name or service not known")
        return found(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", without)


def test_only_localhost_is_known() -> None:
    assert [known_host(h) for h in ("localhost", "LocalHost", "::1", "localhost.example", "")] == [
        "127.0.0.1", "127.0.0.1", "::1", "localhost.example", "",
    ]  # fmt: skip


def test_flightgear_of_this_machine_gets_its_packets() -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as flightgear:
        flightgear.bind(("127.0.0.1", 0))
        flightgear.settimeout(10.0)
        sender = Sender(Address("localhost", flightgear.getsockname()[1]))
        sender.send(b"now")
        assert flightgear.recv(10) == b"now"
        sender.close()


def test_datagrams_may_go_to_this_machine() -> None:
    open_frame_link("udp://localhost:9").close()
    with pytest.raises(ScenarioError, match=r"the host 'nowhere\.invalid' is unknown"):
        open_frame_link("udp://nowhere.invalid:9")


def test_foxglove_is_served_to_this_machine() -> None:
    assert read_address("localhost:8765") == ("127.0.0.1", 8765)
    check_exposure("localhost:8765", unencrypted=False)

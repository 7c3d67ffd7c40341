"""What a client may ask a gateway: anything else is refused before it is believed."""

from __future__ import annotations

import random
from typing import Any

import msgpack
import numpy as np
import pytest

from rtsim.core.net.messagepack import pack
from rtsim.gateway.client import VERSION, RequestError, read_request

BAD: list[object] = [
    None, 3, [], {"id": -1}, {"id": True, "v": VERSION}, {"id": 1, "v": VERSION + 1},
    {"id": 1, "v": VERSION, "do": "eval"},
    {"id": 1, "v": VERSION, "do": "get", "names": "x"},
    {"id": 1, "v": VERSION, "do": "get", "names": [1]},
    {"id": 1, "v": VERSION, "do": "get", "names": ["x"] * 2000},
    {"id": 1, "v": VERSION, "do": "watch", "rate": -1},
    {"id": 1, "v": VERSION, "do": "watch", "rate": 1e9},
    {"id": 1, "v": VERSION, "do": "command", "command": 1},
    {"id": 1, "v": np.ones(2)}, {"id": 1, "v": VERSION, "do": np.ones(2)}, {"id": np.ones(2)},
    {"id": 1, "v": True}, {"id": 1, "v": VERSION, "do": b"get"},
    {"id": 2**63, "v": VERSION}, {"id": 1, "v": VERSION, "do": "get", "names": ["x" * 300]},
]  # fmt: skip


@pytest.mark.parametrize("said", BAD)
def test_requests_that_are_none(said: object) -> None:
    with pytest.raises(RequestError):
        read_request(pack(said) if not _wide(said) else msgpack.packb(said))


def _wide(said: object) -> bool:
    return isinstance(said, dict) and type(said.get("id")) is int and said["id"] >= 2**63


def test_bytes_that_are_no_request() -> None:
    chance = random.Random(3)
    for _ in range(3000):
        with pytest.raises(RequestError):
            read_request(chance.randbytes(chance.randrange(100)))
    deep: Any = 1
    for _ in range(50):
        deep = [deep]
    with pytest.raises(RequestError, match="deeper"):
        read_request(msgpack.packb(deep))
    with pytest.raises(RequestError, match="cut off"):
        read_request(b"\xdd\xff\xff\xff\xff")

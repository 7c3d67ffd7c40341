"""A viewer that speaks Foxglove's WebSocket protocol, with another library than the server's."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from rtsim.record.schema import message_class

PROTOCOL = "foxglove.sdk.v1"
_HEAD = struct.Struct("<BIQ")


@dataclass
class Message:
    """One message: ``ns`` is its log time."""

    topic: str
    ns: int
    fields: dict[str, Any]


@dataclass
class Watcher:
    """A connection; channels by topic as the server advertises them."""

    connection: ClientConnection
    info: dict[str, Any] = field(default_factory=dict)
    channels: dict[str, dict[str, Any]] = field(default_factory=dict)
    sessions: list[str] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    _classes: dict[int, tuple[str, Any]] = field(default_factory=dict)

    def wait_for(self, *topics: str, seconds: float = 60.0) -> None:
        """Until these are advertised."""
        for _ in range(2000):
            if set(topics) <= set(self.channels):
                return
            assert self._hear(seconds) is None
        raise AssertionError(f"advertised: {sorted(self.channels)}")

    def subscribe(self, *topics: str) -> None:
        wanted = []
        for topic in topics:
            channel = self.channels[topic]
            schema = base64.b64decode(channel["schema"])
            self._classes[channel["id"]] = (topic, message_class(schema, channel["schemaName"]))
            wanted.append({"id": channel["id"], "channelId": channel["id"]})
        self.connection.send(json.dumps({"op": "subscribe", "subscriptions": wanted}))

    def messages(self, seconds: float = 60.0) -> Iterator[Message]:
        """Until the server says goodbye."""
        try:
            while True:
                message = self._hear(seconds)
                if message is not None:
                    yield message
        except ConnectionClosed:
            return

    def _hear(self, seconds: float) -> Message | None:
        data = self.connection.recv(seconds)
        if isinstance(data, str):
            self._told(json.loads(data))
        elif data[0] == 2:
            self.times.append(int.from_bytes(data[1:9], "little"))
        elif data[0] == 1:
            _, number, ns = _HEAD.unpack_from(data)
            topic, kind = self._classes[number]
            message = kind.FromString(data[_HEAD.size :])
            return Message(topic, ns, _fields(message))
        return None

    def _told(self, said: Mapping[str, Any]) -> None:
        if said["op"] == "serverInfo":
            self.info = dict(said)
            self.sessions.append(said["sessionId"])
        elif said["op"] == "advertise":
            self.channels |= {channel["topic"]: channel for channel in said["channels"]}


def _fields(message: Any) -> dict[str, Any]:
    return {f.name: getattr(message, f.name) for f in message.DESCRIPTOR.fields}


@contextmanager
def watching(port: int) -> Iterator[Watcher]:
    """Connected; who listens there may begin to answer later."""
    url = f"ws://127.0.0.1:{port}"
    protocol: Any = PROTOCOL
    connection: Any  # the libraries' versions name its type differently
    with connect(url, subprotocols=[protocol], open_timeout=60, max_size=None) as connection:
        yield Watcher(connection)


def frozen(port: int, channels: int) -> socket.socket:
    """A viewer that subscribes to the first so many channels and never reads again."""
    end = socket.socket()
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    end.settimeout(60)
    end.connect(("127.0.0.1", port))
    key = base64.b64encode(os.urandom(16)).decode()
    end.sendall(
        f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n".encode()
    )
    assert end.recv(12) == b"HTTP/1.1 101"
    wanted = [{"id": k, "channelId": k} for k in range(1, channels + 1)]
    text = json.dumps({"op": "subscribe", "subscriptions": wanted}).encode()
    mask = os.urandom(4)
    masked = bytes(b ^ mask[k % 4] for k, b in enumerate(text))
    end.sendall(b"\x81\xfe" + len(text).to_bytes(2, "big") + mask + masked)
    return end

"""A link to ROS 2 nodes over Zenoh, with the keys of ``rmw_zenoh_cpp``.

URL: ``zenoh://HOST:PORT?frames=FILE.ros2``.  The link connects to the Zenoh router at this address,
as ROS 2 nodes do.  The option ``listen=yes`` opens the port instead, so that other programs connect
to this link without a router.  ``domain`` is ROS_DOMAIN_ID, ``node`` is the name of the node.

Source of keys, liveliness tokens and attachments: docs/design.md of github.com/ros2/rmw_zenoh, and
``liveliness_utils.cpp`` and ``attachment_helpers.cpp`` since release 0.6.0 (2025).
"""

from __future__ import annotations

import ipaddress
import json
import struct
import time
from collections import deque
from collections.abc import Mapping
from hashlib import blake2b
from itertools import count
from pathlib import Path
from threading import Condition
from typing import Any

from hitl.buses.contract import LinkError
from hitl.buses.ros2 import MOST_BYTES, RosCodec
from rtsim.components.frames import Frame, FrameError, read_frames
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.extras import extra
from rtsim.core.net import known_host

MOST_KEPT = 4096
"""Number of received messages that wait to be read; the loss of further messages is counted."""
_OPTIONS = ("domain", "node", "listen", "frames", "remote")
_ATTACHMENT = struct.Struct("<qqB16s")
_QOS = "::,:,:,:,,"
"""Default quality of service: reliable, volatile, keep last."""


class ZenohLink:
    """A link whose frames are the messages of the ``.ros2`` file ``frames``.

    Messages of one topic arrive in their order; messages of two topics may change places.
    """

    addressed = True

    def __init__(
        self, text: str, to: str, options: Mapping[str, str], frames: str, remote: bool
    ) -> None:
        for name in options:
            if name not in _OPTIONS:
                raise UnknownName("option", name, _OPTIONS, text)
        if not frames:
            raise ScenarioError(f"{text} names no messages; add the option frames=FILE.ros2")
        codecs = read_frames(Path(frames)).values()
        self._codecs = {c.identifier: c for c in codecs if isinstance(c, RosCodec)}
        if len(self._codecs) < len(codecs):
            raise ScenarioError(f"{text}: {frames} describes no ROS 2 messages; give a .ros2 file")
        self._name = text
        self._domain = _domain(text, options.get("domain", "0"))
        self._node = options.get("node", "rtsim")
        if not self._node.isidentifier():
            raise ScenarioError(f"{text}: node={self._node} is not a name such as rtsim")
        listen = options.get("listen", "no")
        if listen not in ("yes", "no"):
            raise ScenarioError(f"{text}: listen={listen}; write listen=yes or leave it out")
        zenoh = extra("zenoh", "ros2", "a link to ROS 2")
        self._closed = False
        self._arrived: deque[tuple[int, int, bytes]] = deque()
        self._news, self._lost, self.arrived_ns = Condition(), 0, 0
        self._zenoh = zenoh
        self._listens = listen == "yes"
        self._session = self._open(_endpoint(text, to, remote), self._listens)
        self._senders: dict[int, tuple[str, bytes, count[int]]] = {}
        self._tokens = [self._declare("NN", None, 0)[0]]
        self._receivers = [self._receiver(codec) for codec in self._codecs.values()]

    def _open(self, endpoint: str, listen: bool) -> Any:
        config = self._zenoh.Config()
        for key, value in {
            "mode": "peer" if listen else "client",
            "listen/endpoints": [endpoint] if listen else [],
            "connect/endpoints": [] if listen else [endpoint],
            "scouting/multicast/enabled": False,
            "scouting/gossip/enabled": False,
        }.items():
            config.insert_json5(key, json.dumps(value))
        try:
            return self._zenoh.open(config)
        except self._zenoh.ZError as error:
            what = "listen at" if listen else "connect to"
            raise LinkError(
                f"cannot {what} {endpoint} for {self._name}: {str(error).splitlines()[0]}; start a "
                "router first (ros2 run rmw_zenoh_cpp rmw_zenohd), or add listen=yes"
            ) from None

    def _receiver(self, codec: RosCodec) -> Any:
        def take(sample: Any) -> None:
            now = stopwatch()
            data = sample.payload.to_bytes()
            with self._news:
                if len(self._arrived) >= MOST_KEPT or len(data) > MOST_BYTES:
                    self._lost += 1
                else:
                    self._arrived.append((now, codec.identifier, data))
                self._news.notify()

        self._tokens.append(self._declare("MS", codec, len(self._tokens))[0])
        return self._session.declare_subscriber(
            self._key(codec), take, allowed_origin=self._zenoh.Locality.REMOTE
        )

    def _key(self, codec: RosCodec) -> str:
        topic = codec.topic.strip("/")
        return f"{self._domain}/{topic}/{codec.dds_type}/{codec.type_hash}"

    def _declare(self, kind: str, codec: RosCodec | None, number: int) -> tuple[Any, bytes]:
        """Declare the liveliness token by which ROS 2 nodes find a node, publisher or subscriber.

        Returns the token and the identifier of its publisher.
        """
        zid = self._session.info.zid()
        key = f"@ros2_lv/{self._domain}/{zid}/0/{number}/{kind}/%/%/{self._node}"
        if codec is not None:
            topic = "%" + codec.topic.strip("/").replace("/", "%")
            key += f"/{topic}/{codec.dds_type}/{codec.type_hash}/{_QOS}"
        token = self._session.liveliness().declare_token(key)
        return token, blake2b(key.encode(), digest_size=16).digest()

    def send(self, frame: Frame) -> None:
        self._check_open()
        codec = self._codecs.get(frame.identifier)
        if codec is None:
            raise LinkError(f"{self._name}: no message has the identifier {frame.identifier}")
        if codec.identifier not in self._senders:
            token, identity = self._declare("MP", codec, len(self._tokens))
            self._tokens.append(token)
            self._senders[codec.identifier] = self._key(codec), identity, count(1)
        self._check_connected()
        key, identity, numbers = self._senders[codec.identifier]
        try:
            # A declared publisher would drop its first messages until the router has answered.
            self._session.put(
                key,
                frame.data,
                congestion_control=self._zenoh.CongestionControl.DROP,
                attachment=_ATTACHMENT.pack(next(numbers), time.time_ns(), 16, identity),
            )
        except self._zenoh.ZError as error:
            raise LinkError(f"cannot send to {self._name}: {error}") from None

    def receive(self, timeout: float) -> Frame | None:
        self._check_open()
        with self._news:
            if not self._arrived and not self._lost and timeout > 0.0:
                self._news.wait(timeout)
            if self._lost:
                self._lost -= 1
                raise FrameError(
                    f"a message was lost: more than {MOST_KEPT} messages waited, or the message "
                    f"had more than {MOST_BYTES} bytes"
                )
            if not self._arrived:
                self._check_connected()
                return None
            self.arrived_ns, identifier, data = self._arrived.popleft()
        return Frame(data, identifier)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._session.close()

    def _check_connected(self) -> None:
        """Raise :class:`LinkError` without a router, because Zenoh then drops each message."""
        info = self._session.info
        if not (self._listens or info.routers_zid() or info.peers_zid()):
            raise LinkError(
                f"the connection {self._name} is lost: the router has ended; start it again, and "
                "then the run"
            )

    def _check_open(self) -> None:
        if self._closed:
            raise LinkError(f"{self._name} is closed")


def _domain(text: str, given: str) -> int:
    if not (given.isascii() and given.isdigit() and len(given) < 4):
        raise ScenarioError(f"{text}: domain={given} is not a number from 0 to 999")
    return int(given)


def _endpoint(text: str, to: str, remote: bool) -> str:
    """Return the endpoint of ``HOST:PORT``; an address of another machine requires ``remote``."""
    host, colon, digits = to.rpartition(":")
    if not colon or not (digits.isascii() and digits.isdigit() and 0 < int(digits) < 65536):
        raise ScenarioError(f"{text}: {to!r} is not an address; write zenoh://127.0.0.1:7447")
    host = known_host(host.strip("[]"))
    try:
        here = ipaddress.ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost"
    if not here and not remote:
        raise ScenarioError(
            f"{text}: {host} is not this machine; add remote=yes to the URL if messages may leave "
            "or enter it (they are not encrypted)"
        )
    host = "127.0.0.1" if host == "localhost" else host
    return f"tcp/[{host}]:{digits}" if ":" in host else f"tcp/{host}:{digits}"

"""The gateway process, which connects many clients with the simulation loop.

:class:`rtsim.gateway.pipe.PipedProcess` starts the process. The start fails if a requested service
cannot start. The process ends when the loop closes its end of the pipe.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.net.keys import Keys
from rtsim.core.net.messagepack import pack
from rtsim.core.net.sockets import ListeningSocket
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.commands import read_command
from rtsim.gateway.client import VERSION, ClientRequest, RequestError, read_request
from rtsim.gateway.pipe import Pipe, PipeError
from rtsim.gateway.publishing import (
    DecodedSample,
    PlotJuggler,
    SamplePublisher,
    Viewer,
    decode_sample,
)
from rtsim.gateway.registry import RegisteredRun, enter, open_folder
from rtsim.record.recent_jobs import RecentJobs
from rtsim.timing.background import OffTheLoop, step_back

LEASE_NS = 5 * NS_PER_S
"""A client's watch ends if the client does not renew it within this time, ns."""
MOST_CLIENTS = 64
MOST_MEMORY = 1 << 29
"""Memory limit of this process, bytes. The process normally needs a quarter of it."""
MOST_GETS = 4
_LOOK_MS = 100
_AT_ONCE = 256
"""Number of client messages after which the process reads the pipe again."""
_GET_HZ = 20.0


@dataclass
class Client:
    """A client that receives samples: names of signals, sample rate and end."""

    names: tuple[str, ...] = ()
    indices: list[int] = field(default_factory=list)
    rate_hz: float = 0.0
    until_ns: int = 0
    next_ns: int = 0
    lost: int = 0


class GatewayProcess:
    """Forward requests from clients to the loop, and answers and samples to the clients."""

    def __init__(
        self, pipe: Pipe, listeners: Sequence[ListeningSocket], publisher: SamplePublisher
    ) -> None:
        self._pipe, self._listeners, self._publisher = pipe, listeners, publisher
        self._run: dict[str, Any] = {}
        self._index: dict[str, int] = {}
        self._clients: dict[tuple[int, bytes], Client] = {}
        self._known: dict[tuple[int, bytes], None] = {}
        """The latest clients, which are informed when the run ends."""
        self._asked: dict[int, tuple[int, bytes, int]] = {}
        """Maps the number of a command in the pipe to its client and to the client's own number."""
        self._numbers = 0
        self._waiting: list[tuple[int, bytes, ClientRequest]] = []
        self._rate_hz = 0.0
        self._got_ns = 0
        self.ended = ""
        self._unrecorded = ""
        self._watched: dict[str, dict[str, Any]] = {}
        """The latest bounds of each requirement."""
        self._jobs: dict[str, RecentJobs] = {}
        self.on_run: list[Any] = []
        self.off: OffTheLoop | None = None

    def serve(self) -> None:
        """Serve clients until the loop closes the pipe."""
        while not self._pipe.gone:
            if self.off is not None:
                self.off.look()
            first, *more = self._listeners
            first.wait(_LOOK_MS, self._pipe.fileno(), *(x.socket for x in more))
            self._pipe.flush()
            for message in self._pipe.receive():
                self._from_loop(message)
            for k, listener in enumerate(self._listeners):
                for _ in range(_AT_ONCE):
                    said = listener.receive()
                    if said is None:
                        break
                    self._from_client(k, *said)
            self._request_samples()
        for place, who, theirs in self._asked.values():
            self._reply(place, who, theirs, error=self.ended or "the run has ended")

    # -- the loop

    def _from_loop(self, message: dict[str, Any]) -> None:
        if "run" in message:
            self._run, self._unrecorded, self._watched = message["run"], "", {}
            processors = self._run.get("processors", ())
            self._jobs = {one["name"]: RecentJobs(one["tasks"]) for one in processors}
            self._index = {row["name"]: k for k, row in enumerate(self._run["signals"])}
            self._publisher.begin(self._run)
            for action in self.on_run:
                action(self._run)
        elif "look" in message:
            self._on_sample(decode_sample(message["look"], len(self._run["links"])))
        elif "jobs" in message:
            for name, new in message["jobs"].items():
                if name in self._jobs:
                    self._jobs[name].join(new)
        elif "answer" in message:
            place, who, theirs = self._asked.pop(message["answer"], (0, b"", -1))
            if message["wrong"]:
                self._reply(place, who, theirs, error=message["wrong"])
            else:
                self._reply(place, who, theirs, ns=message["ns"], wait_ns=message["wait_ns"])
        elif "watched" in message:
            self._watched |= {str(one["name"]): one for one in message["watched"]}
        elif "unrecorded" in message:
            self._unrecorded = str(message["unrecorded"])
        elif "ended" in message:
            self.ended = str(message["ended"])
            self._waiting.clear()
            for place, who in self._known:
                self._reply(place, who, -1, error=self.ended, over=True)
            self._pipe.send({"published": self._publisher.counts})

    def _on_sample(self, sample: DecodedSample) -> None:
        state, values = sample.state, sample.values
        self._publisher.publish(state, values)
        waiting, self._waiting = self._waiting, []
        latency = sample.counts.tolist() if waiting else []
        stamps = sample.stamps.tolist() if waiting else []
        for place, who, request in waiting:
            found = [float(values[self._index[n]]) for n in request.names]
            what = {
                "values": found, "state": asdict(state), "latency": latency,
                "stamps": stamps, "telemetry": self._publisher.counts,
                **({"watched": list(self._watched.values())} if self._watched else {}),
                **({"jobs": self._jobs_after(request.jobs_after)} if self._jobs else {}),
                **({"unrecorded": self._unrecorded} if self._unrecorded else {}),
            }  # fmt: skip
            self._reply(place, who, request.number, **what)
        now = stopwatch()
        for (place, who), client in list(self._clients.items()):
            if client.rate_hz and now >= client.next_ns:
                client.next_ns = now + round(NS_PER_S / client.rate_hz)
                what = {"v": VERSION, "state": asdict(state), "lost": client.lost,
                        "values": [float(values[k]) for k in client.indices]}  # fmt: skip
                if not self._listeners[place].send(who, pack({"sample": what})):
                    client.lost += 1

    def _jobs_after(self, ns: int | None) -> dict[str, Any]:
        return {} if ns is None else {name: one.after(ns) for name, one in self._jobs.items()}

    def _request_samples(self) -> None:
        now = stopwatch()
        for key, client in list(self._clients.items()):
            if client.rate_hz and now > client.until_ns:
                del self._clients[key]
        rates = [c.rate_hz for c in self._clients.values()]
        if self._waiting or now < self._got_ns + NS_PER_S:
            rates.append(_GET_HZ)
        wanted = max([*rates, self._publisher.rate_hz], default=0.0)
        if wanted != self._rate_hz and self._pipe.send({"looks": wanted}):
            self._rate_hz = wanted

    # -- clients

    def _from_client(self, place: int, who: bytes, data: bytes) -> None:
        self._known[(place, who)] = None
        if len(self._known) > MOST_CLIENTS:
            del self._known[next(iter(self._known))]
        try:
            request = read_request(data)
            self._answer(place, who, request)
        except RequestError as error:
            self._reply(place, who, error.number, error=str(error))
        except RtsimError as error:
            self._reply(place, who, request.number, error=str(error))

    def _answer(self, place: int, who: bytes, request: ClientRequest) -> None:
        if not self._run:
            raise RequestError("the run has not begun yet; try again", request.number)
        if request.do == "hello":
            self._reply(place, who, request.number, run=self._run)
        elif request.do == "command":
            self._command(place, who, request)
        elif request.do == "watch":
            self._watch(place, who, request)
        elif self.ended:
            raise RequestError(self.ended, request.number)
        else:
            self._indices(request)
            self._got_ns = stopwatch()
            self._wait_for_sample(place, who, request)

    def _wait_for_sample(self, place: int, who: bytes, request: ClientRequest) -> None:
        theirs = sum((place, who) == (p, w) for p, w, _ in self._waiting)
        if theirs >= MOST_GETS or (not theirs and len(self._waiting) >= MOST_GETS * MOST_CLIENTS):
            raise RequestError("too many requests are pending; send fewer", request.number)
        self._waiting.append((place, who, request))

    def _indices(self, request: ClientRequest) -> list[int]:
        for name in request.names:
            if name not in self._index:
                self._check_left_out(name)
                raise UnknownName("signal", name, self._index, "this run")
        return [self._index[n] for n in request.names]

    def _check_left_out(self, name: str) -> None:
        for part in (name, name.partition(".")[0]):
            if many := self._run["left_out"].get(part):
                raise RtsimError(
                    f"{name} cannot be read during the run, because {part} has too many values "
                    f"({many}); read {name} from the recording after the run"
                )

    def _command(self, place: int, who: bytes, request: ClientRequest) -> None:
        if len(self._asked) >= 1000:
            raise RequestError(
                "1000 commands are waiting for the run; send them more slowly", request.number
            )
        read_command(request.command)  # a malformed command must not reach the loop
        self._numbers += 1
        message = {"command": dict(request.command), "id": self._numbers}
        if not self._pipe.send({**message, "initiated": request.initiated_ns}):
            raise RequestError("the run accepts no commands now; try again", request.number)
        self._asked[self._numbers] = (place, who, request.number)

    def _watch(self, place: int, who: bytes, request: ClientRequest) -> None:
        indices = self._indices(request)
        if (place, who) not in self._clients and len(self._clients) >= MOST_CLIENTS:
            raise RequestError(
                f"{MOST_CLIENTS} clients are watching already, which is the limit", request.number
            )
        client = self._clients.setdefault((place, who), Client())
        client.names, client.indices = request.names, indices
        client.rate_hz, client.until_ns = request.rate_hz, stopwatch() + LEASE_NS
        if not request.rate_hz:
            del self._clients[(place, who)]
        self._reply(place, who, request.number)

    def _reply(self, place: int, who: bytes, number: int, **what: Any) -> None:
        if number < 0 and "error" not in what:
            return
        answer = {"v": VERSION, "id": number, "ok": "error" not in what, **what}
        if who:
            self._listeners[place].send(who, pack(answer))


@contextmanager
def _starting(option: str, remedy: str) -> Iterator[None]:
    try:
        yield
    except (ImportError, OSError, RtsimError) as error:
        raise ScenarioError(f"{option} cannot start: {error}; {remedy}") from error


def _viewers(given: argparse.Namespace) -> Iterator[Viewer]:
    if given.plotjuggler:
        with _starting("--plotjuggler", "end the program that uses this port"):
            viewer = PlotJuggler(given.plotjuggler)
        yield viewer
    if given.foxglove:
        with _starting("--foxglove", "type: pip install 'rtsim[foxglove]'"):
            from rtsim.gateway.foxglove import Foxglove
        yield Foxglove(socket.socket(fileno=given.passed[0]))


def _listeners(given: argparse.Namespace) -> Iterator[ListeningSocket]:
    """Yield the requested sockets for clients. The first serves clients on this machine."""
    if given.listed:
        open_folder()
    yield ListeningSocket.local()
    if given.bind:
        remedy = "end the program that uses this address, or give another tcp://HOST:PORT"
        with _starting("--control-at", remedy):
            keys = Keys.load(Path(given.keys)) if given.keys else None
            listener = ListeningSocket(given.bind, keys)
        yield listener


def _bound_memory() -> None:
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        least = MOST_MEMORY if most < 0 else min(most, MOST_MEMORY)
        resource.setrlimit(resource.RLIMIT_DATA, (least, most))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the gateway process with command-line arguments from ``Gateway``."""
    parser = argparse.ArgumentParser(prog="rtsim.gateway")
    parser.add_argument("pipe", type=int)
    about = "File descriptor of the open socket for Foxglove."
    parser.add_argument("passed", type=int, nargs="*", help=about)
    for option in ("--bind", "--keys", "--plotjuggler"):
        parser.add_argument(option, default="")
    parser.add_argument("--foxglove", action="store_true")
    about = "Register the run, so that clients find it by its name."
    parser.add_argument("--listed", action="store_true", help=about)
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run ends this process
    _bound_memory()
    step_back()
    pipe = Pipe(socket.socket(fileno=given.pipe))
    with ExitStack() as stack:
        stack.callback(pipe.close)
        listeners: list[ListeningSocket] = []
        viewers: list[Viewer] = []
        try:
            for listener in _listeners(given):
                stack.callback(listener.close)
                listeners.append(listener)
            for viewer in _viewers(given):
                stack.callback(viewer.close)
                viewers.append(viewer)
        except (OSError, RtsimError) as error:
            pipe.send({"failed": str(error)})
            return
        publisher = SamplePublisher(viewers)
        pipe.send({"ready": True})
        gate = GatewayProcess(pipe, listeners, publisher)

        def entered(run: dict[str, Any]) -> None:
            name = str(run.get("scenario", ""))
            try:
                path = enter(
                    RegisteredRun(int(run["pid"]), os.getpid(), name, listeners[0].endpoint)
                )
            except RtsimError as error:  # clients can still use a tcp:// address
                print(f"rtsim: rtsim ctl runs does not list this run: {error}", file=sys.stderr)
                return
            stack.callback(lambda: path.unlink(missing_ok=True))

        gate.on_run.append(entered)
        gate.off = off = OffTheLoop(os.getppid())
        gate.on_run.append(lambda run: off.follow(int(run["thread"])))
        try:
            gate.serve()
        except PipeError as error:
            print(f"rtsim: clients cannot control the run any more: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()

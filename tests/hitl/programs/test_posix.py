"""Each call that virtual time replaces does what POSIX says, at the time that it says."""

from __future__ import annotations

import re

import pytest
from program_runs import MS, Compile, run_to_end

from hitl.programs.started import Datagram

_SUBJECTS = (
    "clocks", "sleeps", "conditions", "mutexes", "fairness", "rwlocks", "semaphores", "barriers",
    "ends", "onces", "c11", "timers", "files", "futexes", "signals",
)  # fmt: skip


@pytest.mark.parametrize("subject", _SUBJECTS)
def test_call(compiled_program: Compile, subject: str) -> None:
    ended = run_to_end(compiled_program("posix.c"), subject)
    assert "ended with exit status 0" in ended.error, ended.output
    assert not ended.notes


def test_each_subject_is_tested(compiled_program: Compile) -> None:
    ended = run_to_end(compiled_program("posix.c"))
    assert set(ended.output.split()) == {*_SUBJECTS, "numbers"}


def test_random_numbers_of_the_system_are_the_same_in_each_run(compiled_program: Compile) -> None:
    first, second = (run_to_end(compiled_program("posix.c"), "numbers") for _ in range(2))
    assert re.fullmatch("[0-9a-f]{32}\n", first.output)
    assert first.output == second.output


def test_threads_of_cpp(compiled_program: Compile) -> None:
    ended = run_to_end(compiled_program("threads.cpp"))
    assert ended.output.splitlines() == [
        "notified at 10.0", "timeout 1 at 15.0", "timeout 1 at 20.0", "slept until 30.0",
        "future 42 at 33.0", "locked 0", "once", "end at 35.0",
    ]  # fmt: skip


@pytest.mark.parametrize("flags", [(), ("-D_FORTIFY_SOURCE=2",)], ids=["plain", "fortified"])
def test_a_datagram_reaches_each_call_at_its_time_with_its_sender(
    compiled_program: Compile, flags: tuple[str, ...]
) -> None:
    sends = [
        Datagram(k * 10 * MS, 4000, b"" if k == 8 else b"d%d" % k, 77 + k) for k in range(1, 10)
    ]
    ended = run_to_end(compiled_program("sockets.c", *flags), "receives", sends=sends)
    assert ended.output.splitlines() == [
        "peek: d1 from 78 at 10.0 ms",
        "recvfrom: d1 from 78 at 10.0 ms",
        "recv: d2 from 0 at 20.0 ms",
        "read: d3 from 0 at 30.0 ms",
        "readv: d4 from 0 at 40.0 ms",
        "recvmsg: d5 from 82 at 50.0 ms",
        "recvmmsg: 1",
        "short: d7 from 0 at 70.0 ms",
        "empty:  from 0 at 80.0 ms",
        "MSG_DONTWAIT: Resource temporarily unavailable at 80.0 ms",
        "SO_RCVTIMEO: d9 from 0 at 90.0 ms",
        "O_NONBLOCK: Resource temporarily unavailable at 90.0 ms",
        "getsockname: 0 4000",
    ]


def test_a_receive_timeout_ends_at_its_time(compiled_program: Compile) -> None:
    sends = [Datagram(MS, 4000, b"d%d" % k) for k in range(10)]
    ended = run_to_end(compiled_program("sockets.c"), "receives", sends=sends)
    assert "SO_RCVTIMEO: Resource temporarily unavailable at 31.0 ms" in ended.output


@pytest.mark.parametrize("flags", [(), ("-D_FORTIFY_SOURCE=2",)], ids=["plain", "fortified"])
def test_poll_select_and_epoll_wait_for_datagrams(
    compiled_program: Compile, flags: tuple[str, ...]
) -> None:
    sends = [Datagram(k * 10 * MS, 4000, b"d%d" % k) for k in range(1, 4)]
    ended = run_to_end(compiled_program("sockets.c", *flags), "waits", sends=sends)
    assert ended.output.splitlines() == [
        "poll: 1 at 10.0 ms", "data: d1 from 0 at 10.0 ms",
        "select: 1 at 20.0 ms", "data: d2 from 0 at 20.0 ms",
        "epoll: 1 at 30.0 ms", "data: d3 from 0 at 30.0 ms",
        "epoll: 0 at 40.0 ms",
    ]  # fmt: skip


def test_epoll_watches_a_socket_before_it_has_its_port(compiled_program: Compile) -> None:
    sends = [Datagram(k * 10 * MS, 4000, b"d%d" % k) for k in range(1, 3)]
    ended = run_to_end(compiled_program("sockets.c"), "early", sends=sends)
    assert ended.output.splitlines() == [
        "epoll: 1 1 at 10.0 ms", "data: d1 from 0 at 10.0 ms", "epoll: 0 at 1010.0 ms",
    ]  # fmt: skip


def test_each_call_sends_with_its_time_and_ports(compiled_program: Compile) -> None:
    ended = run_to_end(compiled_program("sockets.c"), "sends", other_ports=True)
    assert ended.output.splitlines() == [
        "long: Message too long", "elsewhere: Network is unreachable",
        "nowhere: Destination address required", "sendmmsg: 2 2", "getpeername: 0 5000",
    ]  # fmt: skip
    assert [(one.data, one.source) for one in ended.sent] == [
        (b"sendto", 4000), (b"abcd", 4000), (b"send", 49152), (b"ab", 49152), (b"cd", 49152),
        (b"write", 49152), (b"abcd", 49152), (b"unbound", 49153),
    ]  # fmt: skip
    assert {one.port for one in ended.sent} == {5000}
    assert [one.at_ns for one in ended.sent] == [0] + 7 * [MS]
    assert ended.notes == ["not in virtual time: data for port 5009, which is not declared"]


def test_a_program_serves_tcp(compiled_program: Compile) -> None:
    sends = [Datagram(10 * MS, 4001, b"one"), Datagram(20 * MS, 4001, b"two")]
    ended = run_to_end(compiled_program("sockets.c"), "serves", sends=sends)
    assert [(one.data, one.source, one.at_ns // MS) for one in ended.sent] == [
        (b"one", 4001, 10),
        (b"two", 4001, 20),
    ]
    assert "exit status 0" in ended.error


def test_a_program_calls_by_tcp(compiled_program: Compile) -> None:
    sends = [Datagram(10 * MS, 0, b"answer", 5001)]
    ended = run_to_end(compiled_program("sockets.c"), "calls", sends=sends)
    assert ended.output == "answer: answer from 0 at 10.0 ms\n"
    assert ended.sent[0].data == b"hello"
    assert {one.port for one in ended.sent} == {5001}
    assert sum(len(one.data) for one in ended.sent) == len("hello") + 150_000

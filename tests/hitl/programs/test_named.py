"""What virtual time cannot replace has a name, and so has each way in which a program fails."""

from __future__ import annotations

import os
import platform
import socket
import struct
from pathlib import Path

import pytest
from program_runs import MS, Compile, run_to_end

from hitl.building.toolchain import find_toolchain
from hitl.programs.library import ProgramError, check_program, virtual_time
from hitl.programs.process import _MOST_REPORT, MOST_BYTES, VirtualProcess
from hitl.programs.started import Datagram

resource = pytest.importorskip("resource", reason="a module of POSIX")
_OF_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="a property of x86-64")


@pytest.mark.parametrize(
    ("subject", "note", "output"),
    [
        pytest.param("rdtsc", "time stamp counter (rdtsc) at named+0x", "1001", marks=_OF_X86),
        pytest.param("masked", "time stamp counter (rdtsc) at named+0x", "1001", marks=_OF_X86),
        pytest.param(
            "direct", "direct system call clock_gettime at named+0x", "0 1\n0 5", marks=_OF_X86
        ),
        ("stdio", "lost: data at the socket for port 5001, written by a function that is not", ""),
        ("bind", "not in virtual time: a socket at port 5009, which is not declared", ""),
        ("connect", "not in virtual time: a connection to port 5009, which is not declared", ""),
        ("alarm", "not in virtual time: alarm()", ""),
        ("setitimer", "not in virtual time: setitimer()", ""),
        ("timer_create", "not in virtual time: timer_create()", ""),
        ("fork", "not in virtual time: a process that the program has started", ""),
        ("execs", "not in virtual time: a process that the program has started", ""),
        ("system", "not in virtual time: a process that system() has started", ""),
        ("popen", "not in virtual time: a process that popen() has started", ""),
        ("getpid", "getpid(): the number of the process differs between two runs", "1"),
        pytest.param("exec", "time stamp counter (rdtsc) at named+0x", "1001", marks=_OF_X86),
    ],
)
def test_what_is_not_replaced_has_a_note(
    compiled_program: Compile, subject: str, note: str, output: str
) -> None:
    ended = run_to_end(compiled_program("named.c"), subject, other_ports=True)
    assert "exit status 0" in ended.error, ended.error
    assert any(note in found for found in ended.notes), ended.notes
    assert ended.output.strip() == output


@pytest.mark.parametrize(
    ("subject", "what"),
    [("bind", "a socket at port 5009"), ("connect", "a connection to port 5009")],
)
def test_a_port_that_is_not_declared_is_an_error(
    compiled_program: Compile, subject: str, what: str
) -> None:
    ended = run_to_end(compiled_program("named.c"), subject)
    assert f"the program named uses {what}, which is not declared" in ended.error
    assert "it may open port 4000, 4001 and send to port 5000, 5001: correct or add" in ended.error


def test_a_script_that_starts_the_program(compiled_program: Compile, tmp_path: Path) -> None:
    script = tmp_path / "start.sh"
    script.write_text(f"#!/bin/sh\nexec {compiled_program('posix.c')} sleeps\n")
    script.chmod(0o755)
    ended = run_to_end(script)
    assert "exit status 0, after 3600.2" in ended.error, ended.error


def test_programs_that_cannot_load_the_library(
    compiled_program: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ProgramError, match="does not exist; give the path of an executable"):
        check_program(tmp_path / "none")
    text = tmp_path / "text"
    text.write_text("x")
    with pytest.raises(ProgramError, match="is not a program of Linux"):
        check_program(text)
    data = bytearray(compiled_program("named.c").read_bytes())
    other = tmp_path / "other"
    other.write_bytes(bytes(data[:4]) + b"\x01" + bytes(data[5:]))
    with pytest.raises(ProgramError, match="is a program for another processor than"):
        check_program(other)
    owner = tmp_path / "owner"
    owner.write_bytes(data)
    owner.chmod(0o4755)
    with pytest.raises(ProgramError, match="with the rights of its owner"):
        check_program(owner)
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(ProgramError, match="virtual time needs Linux on x86-64 or AArch64"):
        virtual_time()


def test_a_static_program(compiled_program: Compile) -> None:
    flags = ["-static"]
    if find_toolchain().family == "zig":  # it links the other C library statically
        flags += ["-target", f"{platform.machine()}-linux-musl"]
    with pytest.raises(ProgramError, match="is linked statically, so that it loads no library"):
        VirtualProcess([compiled_program("answers.c", *flags)])


def test_a_file_that_may_not_be_run(tmp_path: Path, compiled_program: Compile) -> None:
    path = tmp_path / "program"
    path.write_bytes(compiled_program("named.c").read_bytes())
    path.chmod(0o644)
    with pytest.raises(ProgramError, match=r"exit status 127(.|\n)*Permission denied"):
        VirtualProcess([path])


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ("exit", "the program named has ended with exit status 7, after 0 s of its time"),
        ("abort", "was ended by SIGABRT, after 0 s of its time\nits last output:\nlast words"),
        ("crash", "was ended by SIGSEGV"),
        ("handler", "was ended by SIGSEGV"),
        ("orphan", "has ended with exit status 4"),
        ("last-thread", "has ended with exit status 0"),
    ],
)
def test_a_program_ends(compiled_program: Compile, subject: str, said: str) -> None:
    assert said in run_to_end(compiled_program("named.c"), subject).error


def test_a_killed_program(compiled_program: Compile) -> None:
    process = VirtualProcess([compiled_program("sockets.c"), "fills"], [4000])
    process.run(MS)
    os.kill(process._running.pid, 9)
    with pytest.raises(ProgramError, match=r"was ended by SIGKILL, after 0.001 s of its time"):
        process.run(2 * MS)
    process.close()
    process.close()


@pytest.mark.live
def test_a_program_that_does_not_use_its_time(compiled_program: Compile) -> None:
    ended = run_to_end(compiled_program("named.c"), "loop", patience=0.5)
    assert "has not used its time within 0.5 s" in ended.error
    assert "(thread named runs)" in ended.error


def test_a_program_that_is_replaced_after_its_time_has_begun(compiled_program: Compile) -> None:
    ended = run_to_end(compiled_program("named.c"), "exec-late", step=lambda: MS)
    assert "named has started another program in its place (exec)" in ended.error
    assert "give the other program as the command, after 0.00" in ended.error


def test_a_closed_connection(compiled_program: Compile) -> None:
    ended = run_to_end(compiled_program("named.c"), "close", "0", patience=0.5)
    assert "has closed the connection to its virtual time" in ended.error


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("subject", ["random", "report"])
def test_random_bytes_on_the_connection(compiled_program: Compile, subject: str, seed: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ended = run_to_end(compiled_program("named.c"), subject, str(seed), patience=0.3)
    assert "the program named has" in ended.error
    assert "virtual time" in ended.error
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


_DONE = struct.Struct("<4sIIiqI")
_DATAGRAM, _NOTE = struct.pack("<qHHI", 5, 5000, 4000, 3) + b"abc", struct.pack("<I", 2) + b"hi"


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (_DONE.pack(b"DONE", 1, 1, 1, MS, 25) + _DATAGRAM + _NOTE, ""),
        (_DONE.pack(b"GONE", 0, 0, 1, MS, 0), "damaged"),
        (_DONE.pack(b"DONE", 0, 0, 1, MS // 2 - 1, 0), "damaged"),  # its time goes back
        (_DONE.pack(b"DONE", 0, 0, 1, MS, _MOST_REPORT + 1), "damaged"),
        (_DONE.pack(b"DONE", 1, 1, 1, MS, 24) + _DATAGRAM + _NOTE[:-1], "damaged"),
        (_DONE.pack(b"DONE", 1, 0, 1, MS, 25) + _DATAGRAM + _NOTE, "damaged"),
        (_DONE.pack(b"DONE", 9, 0, 1, MS, 25) + _DATAGRAM + _NOTE, "damaged"),
        (_DONE.pack(b"DONE", 0, 9, 1, MS, 6) + _NOTE, "damaged"),
        (_DONE.pack(b"DONE", 1, 1, 1, MS, 25) + _DATAGRAM, "has not used its time within"),
    ],
    ids=["good", "magic", "time", "size", "cut-note", "one-more", "beyond", "notes", "unfinished"],
)
def test_reports(compiled_program: Compile, report: bytes, said: str) -> None:
    process = VirtualProcess([compiled_program("sockets.c"), "fills"], [4000], patience=0.2)
    process.run(MS // 2)
    process._control.close()
    process._control, other = socket.socketpair()
    process._control.settimeout(0.2)
    other.sendall(report)
    if said:
        with pytest.raises(ProgramError, match=said):
            process.run(MS)
    else:
        assert process.run(MS) == [Datagram(5, 5000, b"abc", 4000)]
        assert process.notes == ["hi"]
    other.close()
    process.close()


def test_a_datagram_that_is_too_long(compiled_program: Compile) -> None:
    process = VirtualProcess([compiled_program("sockets.c"), "fills"], [4000])
    with pytest.raises(ProgramError, match="65508 bytes for port 4000 of sockets is too long"):
        process.run(MS, [Datagram(0, 4000, bytes(MOST_BYTES + 1))])
    process.close()


def test_a_port_that_does_not_exist(compiled_program: Compile) -> None:
    process = VirtualProcess([compiled_program("sockets.c"), "fills"], [4000])
    with pytest.raises(ProgramError, match="goes from port 0 to port 65536 at 0 ns; give ports"):
        process.run(MS, [Datagram(0, 65536, b"x")])
    process.run(MS)
    assert process.opened == {4000}
    assert not process.notes
    process.close()


def test_more_notes_than_the_library_keeps_do_not_hide_an_error(compiled_program: Compile) -> None:
    sends = [Datagram(MS, 6000 + k, b"x") for k in range(200)]
    ended = run_to_end(compiled_program("named.c"), "refused-late", sends=sends)
    assert "uses a socket at port 5009, which is not declared" in ended.error
    assert ended.notes[-2] == "further notes of the program are not listed"
    assert len(ended.notes) == 128


def test_more_ports_than_the_library_keeps(compiled_program: Compile) -> None:
    with pytest.raises(ProgramError, match="sockets has 65 ports; give 64 or less"):
        VirtualProcess([compiled_program("sockets.c")], range(1, 66))


def test_datagrams_that_are_lost_have_a_note(compiled_program: Compile) -> None:
    sends = [Datagram(MS, 4000, bytes(60_000)) for _ in range(20)]
    sends += [Datagram(MS, 4003, b"x"), *(Datagram(MS, 4000, b"") for _ in range(1100))]
    ended = run_to_end(compiled_program("sockets.c"), "fills", sends=sends, until_ns=2 * MS)
    assert sorted(ended.notes) == [
        "lost: a datagram for port 4003, which the program has not opened",
        "lost: data for port 4000, whose socket is full",
    ]


def test_a_program_that_sends_without_a_pause(compiled_program: Compile) -> None:
    ended = run_to_end(
        compiled_program("sockets.c"), "floods", step=lambda: MS // 50, until_ns=MS // 50
    )
    assert ended.error == ""
    assert ended.notes == ["lost: a datagram for port 5000, after 64 MiB without a pause"]
    assert len(ended.sent) == (64 << 20) // 60_016

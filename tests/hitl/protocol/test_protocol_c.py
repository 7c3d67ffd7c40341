"""The C side: golden frames, sealing, the same events as Python, any compiler that firmware has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import c_parts
import pytest
from c_parts import sanitized
from firmware_parts import with_avr_gcc
from protocol_parts import (
    FIRMWARE,
    GOLDEN,
    GOOD,
    WARNINGS,
    compiled,
    noise,
    records,
    run,
    told,
)  # fmt: skip

from hitl.building.toolchain import Toolchain
from hitl.protocol.framing import Parser, encode
from hitl.protocol.generate import PYTHON, C, texts

PAYLOAD = 300
FRAMES = [bytes.fromhex(row["frame"]) for row in GOLDEN]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("protocol"), PAYLOAD, *sanitized())


@pytest.mark.parametrize("path", [PYTHON, C], ids=lambda p: p.name)
def test_what_is_generated_is_not_stale(path: Path) -> None:
    wanted = texts()[path]
    assert path.read_text(encoding="utf-8") == wanted, "run python -m hitl.protocol.generate"


def test_golden_frames_are_heard_alike(driver: Path) -> None:
    said = run(driver, "feed", FRAMES)
    assert said == told(Parser(PAYLOAD), FRAMES)
    assert said.count(b"\xff") >= len(FRAMES)


def test_golden_frames_are_sealed_alike(driver: Path) -> None:
    events = [Parser().feed(frame)[0] for frame in FRAMES]
    bodies = [bytes((e[0], e[1])) + e[2] for e in events if len(e) == 3]
    assert len(bodies) == len(FRAMES)
    assert run(driver, "seal", bodies) == b"".join(FRAMES)


def test_blocks_at_their_limits_are_sealed_alike(driver: Path) -> None:
    payloads = [bytes(n * [byte]) for n in range(245, PAYLOAD + 1) for byte in (0, 1, 255)]
    payloads += [b"\1" * n + b"\0" + b"\1" * (PAYLOAD - n - 1) for n in range(240, 260)]
    bodies = [b"\1\2" + payload for payload in payloads]
    assert run(driver, "seal", bodies) == b"".join(encode(1, 2, p) for p in payloads)


def test_golden_fields_are_read_and_written_alike(tmp_path: Path) -> None:
    """By the accessors of messages.h, from a program that knows the golden values."""
    checks = []
    for row in GOLDEN:
        name = "".join(f"_{c.lower()}" if c.isupper() else c for c in row["message"]).lstrip("_")
        fields = {k: v for k, v in row["fields"].items() if isinstance(v, int)}
        if not fields:
            continue
        (frame,) = Parser().feed(bytes.fromhex(row["frame"]))
        payload = ",".join(map(str, frame[2] if len(frame) == 3 else b"")) or "0"
        same = " && ".join(f"m.{k} == {_literal(v)}" for k, v in fields.items())
        size = f"RTSIM_{name.upper()}_BYTES"
        checks.append(
            f"{{ static const uint8_t p[] = {{{payload}}}; uint8_t q[{size}];\n"
            f"rtsim_{name}_message m; rtsim_read_{name}(p, &m); rtsim_write_{name}(q, &m);\n"
            f"n++; if (!({same}) || memcmp(p, q, {size})) return n; }}"
        )
    lines = "\n".join(checks)
    source = tmp_path / "golden.c"
    source.write_text(
        '#include "messages.h"\n#include <string.h>\n'
        f"int main(void)\n{{\nint n = 0;\n{lines}\nreturn n == {len(checks)} ? 0 : 99;\n}}\n"
    )
    flags = ["-std=c99", *WARNINGS, *sanitized(), f"-I{FIRMWARE}"]
    c_parts.compiled(*flags, source, "-o", tmp_path / "golden", folder=tmp_path)
    assert subprocess.run([tmp_path / "golden"], check=False).returncode == 0


def _literal(value: int) -> str:
    return f"{value}ULL" if value >= 0 else f"{value}"


def test_random_strings_have_the_same_events(driver: Path) -> None:
    strings = [*noise(1, 20_000), GOOD]
    said = run(driver, "feed", strings)
    assert said == told(Parser(PAYLOAD), strings)
    assert {1, 2, 3, 4} <= set(said)


@pytest.mark.full
@pytest.mark.parametrize("payload", [28, PAYLOAD, 1024])
def test_a_million_random_strings_have_the_same_events(payload: int, tmp_path: Path) -> None:
    program = compiled(tmp_path, payload, *sanitized())
    parser = Parser(payload)
    for seed in range(10):
        strings = list(noise(100 + seed, 100_000))
        strings.append(b"\0")  # the program starts anew with the next seed
        assert run(program, "feed", strings) == told(parser, strings)


def test_every_flip_and_truncation_is_heard_alike(driver: Path) -> None:
    strings = []
    for frame in FRAMES:
        strings += [frame[:k] + b"\0" for k in range(len(frame))]
        for k in range(8 * len(frame)):
            flipped = bytearray(frame)
            flipped[k // 8] ^= 1 << k % 8
            strings.append(bytes(flipped) + b"\0")
    assert run(driver, "feed", strings) == told(Parser(PAYLOAD), strings)


def test_a_small_parser_refuses_what_it_cannot_hold(tmp_path: Path) -> None:
    program = compiled(tmp_path, 28, *sanitized())
    strings = [encode(1, 1, bytes(n * [7])) for n in range(25, 33)] + [b"\1" * 5000, b"\0", GOOD]
    said = run(program, "feed", strings)
    assert said == told(Parser(28), strings)
    assert said.endswith(b"\xff\x84\x07\x04\x00good\x00")


def test_a_request_that_comes_again_is_known(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(
        '#include "protocol.h"\n'
        "int main(void)\n{\n    static rtsim_sender s;\n"
        "    if (rtsim_protocol_answered(&s, 0, 0)) return 1;\n"
        "    rtsim_protocol_seal(&s, RTSIM_KIND_STEP_REPLY, 9, 10);\n"
        "    if (!rtsim_protocol_answered(&s, RTSIM_KIND_STEP, 9)) return 2;\n"
        "    if (rtsim_protocol_answered(&s, RTSIM_KIND_STEP, 10)) return 3;\n"
        "    if (rtsim_protocol_answered(&s, RTSIM_KIND_START, 9)) return 4;\n"
        "    rtsim_protocol_seal(&s, RTSIM_KIND_ERROR, 9, 3);\n"
        "    s.request = RTSIM_KIND_START;\n"
        "    if (!rtsim_protocol_answered(&s, RTSIM_KIND_START, 9)) return 5;\n"
        "    if (rtsim_protocol_answered(&s, RTSIM_KIND_HELLO, 9)) return 6;\n"
        "    if (rtsim_protocol_seal(&s, 1, 1, RTSIM_MAX_PAYLOAD + 1)) return 7;\n"
        "    if (!rtsim_protocol_fits(RTSIM_KIND_STEP, 10)) return 8;\n"
        "    if (!rtsim_protocol_fits(RTSIM_KIND_STEP, 11)) return 9;\n"
        "    if (rtsim_protocol_fits(RTSIM_KIND_STEP, 9)) return 10;\n"
        "    if (rtsim_protocol_fits(RTSIM_KIND_PING, 9)) return 11;\n"
        "    if (rtsim_protocol_fits(0x7F, 0)) return 12;\n    return 0;\n}\n"
    )
    flags = ["-std=c99", *WARNINGS, *sanitized(), f"-I{FIRMWARE}"]
    files = [tmp_path / "main.c", FIRMWARE / "protocol.c"]
    c_parts.compiled(*flags, *files, "-o", tmp_path / "main", folder=tmp_path)
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0


@with_avr_gcc
def test_it_compiles_for_an_uno(tmp_path: Path) -> None:
    files = [str(FIRMWARE / "protocol.c"), "-o", str(tmp_path / "protocol.o")]
    flags = ["-std=c99", "-mmcu=atmega328p", "-Os", *WARNINGS, "-c"]
    subprocess.run(["avr-gcc", *flags, *files], check=True)


def test_a_sketch_in_cpp_can_include_it(tmp_path: Path) -> None:
    """By clang of ziglang, whichever compiler there is for C."""
    (tmp_path / "sketch.cpp").write_text('#include "protocol.h"\nrtsim_parser parser;\n')
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror", "-c"]
    cpp = Toolchain((sys.executable, "-m", "ziglang", "c++"), "clang of ziglang")
    cpp.run([*flags, f"-I{FIRMWARE}", "sketch.cpp", "-o", "sketch.o"], tmp_path)


def test_no_heap_and_nothing_of_arduino() -> None:
    for path in FIRMWARE.glob("*.[ch]"):
        text = path.read_text(encoding="utf-8")
        assert not any(word in text for word in ("malloc", "free(", "Arduino.h", "alloca")), path
        assert len(text.splitlines()) <= 400


def test_a_record_is_what_the_driver_takes() -> None:
    assert records([b"ab", b""]) == b"\2\0ab\0\0"

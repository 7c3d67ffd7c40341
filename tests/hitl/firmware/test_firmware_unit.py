"""The generated unit of a board: every type packed and unpacked, entry points, initialisation.

Compiled for the host with the dispatcher around it, ASan and UBSan; the same inputs go to the unit
that SIL is made of, and the answers have to be the same bits.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import c_parts
import numpy as np
import pytest
from c_parts import sanitized
from firmware_parts import ROOT, random_inputs

from hitl.controllers.in_process import InProcess
from hitl.firmware.sketch import gathered, own_files, unit_text
from hitl.interface import load_interface
from hitl.protocol.codec import Codec
from hitl.protocol.session import (
    Connected,
    Event,
    Session,
    Started,
    Stepped,
    Stopped,
    payload_needed,
)
from rtsim.core.tag import Tag

EXAMPLES = sorted(
    str(p.relative_to(ROOT))
    for p in (ROOT / "hitl" / "examples").glob("*/*.toml")
    if p.parent.name != "arduino"  # C++; test_cpp.py runs these on a board
)
CORE = [f"firmware/core/{n}.toml" for n in ("f16_control", "pid", "unstable_control")]


class Hosted:
    """The firmware of an interface as a process, and a session with it."""

    def __init__(self, program: Path, session: Session) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([program], stdin=pipe, stdout=pipe, stderr=pipe)
        self.session = session

    def event(self) -> Event:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        while True:
            if data := self.session.outgoing():
                self.process.stdin.write(data)
                self.process.stdin.flush()
            byte = self.process.stdout.read(1)
            assert byte, self.process.communicate()[1].decode()[-2000:]
            if events := self.session.receive(byte, 0):
                return events[0]


def compiled(reference: str, folder: Path) -> Path:
    interface = load_interface(reference)
    payload = max(64, payload_needed(interface))
    for path, text in own_files(payload).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    place = folder / "src" / "controller"
    place.mkdir()
    files = gathered(interface, unit_text(interface, 0xB01D), "rtsim_unit.c")
    for name, text in files.items():
        (place / name).write_text(text)
    driver = place / "rtsim_driver.c"
    driver.write_text((Path(__file__).parents[2] / "helpers" / "unit_driver.c").read_text())
    own = [folder / "src" / "rtsim" / name for name in ("board.c", "protocol.c")]
    sources = [driver, *own, *(place / name for name in files if name.endswith(".c"))]
    flags = ["-std=gnu11", *sanitized(), "-ffp-contract=off", "-Wall", "-Wno-unused-function"]
    program = folder / "program"
    c_parts.compiled(*flags, *sources, "-o", program, "-lm", folder=folder)
    return program


@contextmanager
def hosted(reference: str, folder: Path) -> Iterator[Hosted]:
    interface = load_interface(reference)
    out = Hosted(compiled(reference, folder), Session(interface, build=0xB01D))
    out.session.connect(0)
    assert isinstance(out.event(), Connected)
    yield out
    said = out.process.communicate(timeout=30)[1].decode()
    assert (out.process.returncode, said) == (0, "")


@pytest.mark.sample(3)
@pytest.mark.parametrize("reference", [*EXAMPLES, *CORE, f"{CORE[0]}:single"])
def test_it_answers_as_the_hosts_unit_does(reference: str, tmp_path: Path) -> None:
    interface = load_interface(reference)
    host = InProcess(reference).fresh()
    codec = Codec(interface.input_fields)
    with hosted(reference, tmp_path) as board:
        board.session.start(interface.parameters.initial({}), 0)
        assert isinstance(board.event(), Started)
        for k, u in enumerate(random_inputs(interface.inputs, 60)):
            if codec.pack(u)[1]:
                u = np.zeros(codec.size)  # beyond a narrow type
            board.session.step(Tag(k), u, 0)
            event = board.event()
            assert isinstance(event, Stepped), event
            host.send(Tag(k), u)
            commands = host.receive(Tag(k), 1.0)
            assert commands is not None
            assert event.outputs.tobytes() == commands.tobytes(), f"step {k}"
            assert event.cycles == 1  # between two readings of the clock nothing else reads it
        board.session.stop(0)
        assert board.event() == Stopped(60)
    host.close()


def interface_of(folder: Path, code: str, header: str, more: str = "") -> str:
    (folder / "c.h").write_text(header)
    (folder / "c.toml").write_text(
        'name = "c"\nperiod = "1/100"\nsources = []\nheaders = ["c.h"]\n'
        f"{more}[code]\n{code}\n"
        '[inputs]\nu = { type = "int32" }\n[outputs]\ny = { type = "int32" }\n'
        'z = { type = "int32", c = "calls" }\n'
        '[parameters]\ngain = { type = "int16", c = "gain", initial = 3 }\n'
    )
    return str(folder / "c.toml")


HEADER = (
    "static short gain = 1; static int calls;\n"
    "static int times(int x) { return ++calls, x * gain; }\n"
)


def test_parameters_before_or_after_initialisation(tmp_path: Path) -> None:
    found = []
    for k, when in enumerate(("before", "after")):
        folder = tmp_path / str(k)
        folder.mkdir()
        code = f'parameters = "{when} initialize"\ninitialize = "gain *= 2"\nstep = "y = times(u)"'
        with hosted(interface_of(folder, code, HEADER), folder) as board:
            board.session.start(np.array([5.0]), 0)
            assert isinstance(board.event(), Started)
            board.session.step(Tag(0), np.array([7.0]), 0)
            event = board.event()
            assert isinstance(event, Stepped)
            found.append(event.outputs[0])
    assert found == [70.0, 35.0]


def test_steps_of_several_rates_begin_anew_with_each_start(tmp_path: Path) -> None:
    code = (
        'initialize = "calls = 0"\n'
        'step = [{ call = "y = times(u)", every = 3, offset = 1 }, { call = "y += 1000" }]'
    )
    wanted = [0, 1, 1, 1, 2, 2, 2, 3]
    with hosted(interface_of(tmp_path, code, HEADER), tmp_path) as board:
        for _ in range(2):
            board.session.start(np.array([1.0]), 0)
            assert isinstance(board.event(), Started)
            calls = []
            for k in range(8):
                board.session.step(Tag(k), np.array([7.0]), 0)
                event = board.event()
                assert isinstance(event, Stepped)
                calls.append(event.outputs[1])
            assert calls == wanted

"""C that calls exit(): a named error with its status, wherever it runs and whatever was due."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hitl.building.build import Build, build
from hitl.controllers.in_process import InProcess
from hitl.controllers.sil import SilController
from hitl.worker.process import Worker
from hitl.worker.remote import Server
from rtsim.core.errors import ControllerError
from rtsim.core.tag import Tag

SOURCE = """\
#include <stdlib.h>
#include <unistd.h>
#include "c.h"
int from, how;
static int steps;
static void end(void)
{
    if (how == 1) exit(0);
    if (how == 2) exit(7);
    if (how == 3) _exit(0);
}
void c_initialize(void) { if (from == 1) end(); }
double c_step(double x) { if (++steps == 3 && from == 2) end(); return x; }
void c_terminate(void) { if (from == 3) end(); }
"""
HEADER = """\
extern int from, how;
void c_initialize(void);
double c_step(double x);
void c_terminate(void);
"""
INTERFACE = """\
name = "c"
period = "1/100"
sources = ["c.c"]
headers = ["c.h"]
[code]
initialize = "c_initialize()"
step = "y = c_step(x)"
terminate = "c_terminate()"
parameters = "before initialize"
[inputs]
x = {}
[outputs]
y = {}
[parameters]
from = { c = "from", type = "int32" }
how = { c = "how", type = "int32" }
"""
WHERE = {"initialize": 1, "step": 2, "terminate": 3}
HOW = {"exit(0)": 1, "exit(7)": 2, "_exit(0)": 3}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder = tmp_path_factory.mktemp("exit")
    for name, text in (("c.c", SOURCE), ("c.h", HEADER), ("c.toml", INTERFACE)):
        (folder / name).write_text(text)
    return build(folder / "c.toml")


def run(controller: SilController | InProcess) -> None:
    """Five steps, from its start to its end."""
    running = controller.fresh()
    try:
        for k in range(5):
            running.send(Tag(k * 10_000_000), np.zeros(1))
            assert running.receive(Tag(k * 10_000_000), 10.0) is not None
    finally:
        running.close()


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("how", HOW)
def test_a_worker_that_exits_is_a_named_error(
    where: str, how: str, made: Build, tmp_path: Path
) -> None:
    values = {"from": WHERE[where], "how": HOW[how]}
    with pytest.raises(ControllerError) as raised:
        run(SilController(made, values, cases=tmp_path))
    said = str(raised.value)
    assert f"ended with exit status {7 if '7' in how else 0}" in said
    assert "the worker of c (process" in said
    if how == "_exit(0)":
        assert "before it had finished: check whether the C calls _exit()" in said
    else:
        assert f"the C called {how} in its {where}, which must return" in said
    begins = {
        "initialize": "c failed in its initialize: ",
        "step": "c failed at 0.020000000 s: ",
        "terminate": "at the end of the run, ",
    }
    assert said.startswith(begins[where])


@pytest.mark.parametrize(
    ("where", "how"),
    [
        ("initialize", "exit(0)"),
        ("step", "exit(7)"),
        ("step", "_exit(0)"),
        ("terminate", "exit(0)"),
    ],
)
def test_in_this_process_it_ends_the_controller_alone(where: str, how: str, made: Build) -> None:
    """In a process of its own here: where it is not caught, the test would end with status 0."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_sil_exit import InProcess, Path, run\n"
        "from rtsim.core.errors import ControllerError\n"
        "try:\n"
        "    run(InProcess(sys.argv[2], {'from': int(sys.argv[3]), 'how': int(sys.argv[4])}))\n"
        "except ControllerError as error:\n"
        "    print(error)\n"
        "print('alive')\n"
    )
    numbers = [str(WHERE[where]), str(HOW[how])]
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent), made.interface.path, *numbers],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    begins = {"initialize": "", "step": "c failed at 0.020000000 s: "}.get(
        where, "c failed when it was terminated: "
    )
    status = 7 if "7" in how else 0
    wanted = f"{begins}c called exit({status}), but it must return\nalive\n"
    assert (done.stdout, done.returncode) == (wanted, 0), done.stderr


def test_each_of_two_in_one_process_leaves_by_itself(made: Build) -> None:
    leaving = InProcess(made, {"from": 2, "how": 1}).fresh()
    staying = InProcess(made).fresh()
    for k in range(2):
        for one in (leaving, staying):
            one.send(Tag(k), np.ones(1))
            one.receive(Tag(k), 0.0)
    with pytest.raises(ControllerError, match=r"c called exit\(0\)"):
        leaving.send(Tag(2), np.ones(1))
    staying.send(Tag(2), np.ones(1))
    assert staying.receive(Tag(2), 0.0) == [1.0]
    for one in (leaving, staying):
        one.close()


def test_a_worker_that_ends_as_it_should_is_heard_to(made: Build) -> None:
    worker = Worker(made.interface, [made.program])
    ending = worker.stop()
    worker.close()
    assert ending.ok
    run(SilController(made))
    run(InProcess(made))


def test_who_is_served_is_told(made: Build) -> None:
    """Over TCP: the server hears that its worker ended without a word."""
    from threading import Thread

    server = Server(made, "tcp://127.0.0.1:47871")
    thread = Thread(target=server.serve, args=(1,))
    thread.start()
    values = {"from": 3, "how": 1}
    with pytest.raises(ControllerError, match=r"the C called exit\(0\) in its terminate"):
        run(SilController(made.interface, values, endpoint="tcp://127.0.0.1:47871"))
    thread.join(20)
    server.close()

"""``rtsim debug``: open a debugger at a step of a recorded run."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import click

from hitl.building.toolchain import cache_folder
from hitl.debugging.in_python import debug_in_python, is_python
from hitl.debugging.recorded import RecordedSteps, recorded_steps
from hitl.debugging.session import (
    EDITOR,
    KINDS,
    DebugError,
    DebugSession,
    find_gdb,
    prepare,
    write_launch,
)
from rtsim.cli.common import FAILED, json_option, reports_errors, show_result, sigterm_interrupts
from rtsim.cli.options import trust_options
from rtsim.record.reading import Recording
from rtsim.record.verdict import short
from rtsim.runs.progress import ProgressLine

_path = click.Path(path_type=Path)
_LAUNCH = Path(".vscode/launch.json")


@dataclass(frozen=True)
class _Ended:
    """How gdb ended."""

    status: int
    output: str = ""


@click.command()
@click.argument("recording", type=_path, metavar="RUN")
@click.option(
    "--at",
    metavar="T",
    help="Simulated time, s. The debugger opens at the latest step at or before T.  [default: the "
    "last step of the recording]",
)
@click.option(
    "--controller",
    metavar="NAME",
    help="Name of the controller. Without it, the run must have a single controller.",
)
@click.option(
    "--build",
    "kind",
    type=click.Choice(KINDS),
    default=KINDS[0],
    show_default=True,
    help="Build of the C code: debug is not optimised, plain is the build of rtsim sil run.",
)
@click.option("--batch", type=_path, metavar="FILE", help="Run gdb's commands in FILE, and end.")
@click.option(
    "--command",
    "commands",
    multiple=True,
    metavar="COMMAND",
    help="Run a command of gdb, and end. Can be repeated; FILE of --batch comes first.",
)
@click.option(
    "--dap",
    is_flag=True,
    help="Serve the Debug Adapter Protocol on standard input and output (gdb 14 or newer).",
)
@click.option(
    "--write-launch",
    is_flag=True,
    help=f"Write an entry for the C/C++ extension of VS Code into {_LAUNCH}.",
)
@click.option("--gdb", "program", default="gdb", show_default=True, help="The debugger gdb.")
@json_option
@reports_errors
@trust_options
def debug(
    recording: Path,
    at: str | None,
    controller: str | None,
    kind: str,
    batch: Path | None,
    commands: tuple[str, ...],
    dap: bool,
    write_launch: bool,
    program: str,
    as_json: bool,
) -> None:
    """Open a debugger at the step of a controller that computed an answer of the recording RUN.

    gdb stops in the function of the controller, with exactly the inputs and the memory of that
    step. The commands next-step, previous-step, step-at T, continue-until 'SIGNAL < VALUE',
    back-until 'SIGNAL < VALUE' and rtsim-info move between the steps (docs/debugging.md). For a
    controller in Python, pdb opens instead of gdb.

    Before, all recorded steps are computed again, and compared with the recording bit for bit.

    \b
    Examples:
      rtsim debug runs/motor-001.mcap --at 1.5
      rtsim debug run.mcap --at 1.5 --command 'print *self' --command previous-step
      rtsim debug run.mcap --at 1.5 --write-launch

    Exit status: 0 if the recomputed answers equal the recording, 1 if one differs, 2 if the
    debugger could not be used or a command of --batch or --command failed.
    """
    recorded = Recording.open(recording)
    steps = recorded_steps(recorded, controller)
    target = len(steps) - 1 if at is None else steps.step_at(at)
    if is_python(steps):
        _refuse_gdb_options(steps, dap, write_launch, as_json)
        found = debug_in_python(recorded, steps, target, _script(batch, commands))
        sys.exit(found)
    gdb = find_gdb(program)
    if dap and not gdb.has_dap:
        raise DebugError(
            f"{gdb.program} is {gdb.version}, and only gdb 14 and newer serve the Debug Adapter "
            "Protocol; name a newer one with --gdb, or use --write-launch, which works with this "
            "gdb"
        )
    if batch is not None and not batch.is_file():
        raise DebugError(f"there is no file {batch} with commands of gdb")
    line = ProgressLine("debug", sys.stderr.isatty() and not as_json and not dap)
    folder = cache_folder() / "debug" / f"{recording.stem}-{steps.name}-{target}"
    with _folder(folder if write_launch else None) as into:
        try:
            session = prepare(recorded, steps, target, into, gdb, kind, line.say)
        finally:
            line.close()
        _say(session, quiet=as_json or dap)
        if write_launch:
            _written(session, as_json)
        ended = _run(session, batch, commands, dap, as_json)
        _report(session, ended, as_json)


def _refuse_gdb_options(steps: RecordedSteps, *given: bool) -> None:
    for name, asked in zip(("--dap", "--write-launch", "--json"), given, strict=True):
        if asked:
            raise DebugError(
                f"{steps.name} is a controller in Python, for which rtsim opens pdb; leave out "
                f"{name}"
            )


def _script(batch: Path | None, commands: Sequence[str]) -> list[str] | None:
    if batch is None and not commands:
        return None
    return [*(batch.read_text(encoding="utf-8").splitlines() if batch else ()), *commands]


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with TemporaryDirectory(prefix="rtsim-debug-") as folder:
        yield Path(folder)


def _say(session: DebugSession, quiet: bool) -> None:
    if not quiet:
        click.echo(f"{session.steps.name}: {session.answers.in_words}")
        for note in session.notes:
            click.echo(f"note: {note}")
        sys.stdout.flush()


def _written(session: DebugSession, as_json: bool) -> NoReturn:
    path = write_launch(session, _LAUNCH)
    if as_json:
        show_result({**_facts(session), "written": str(path)}, *_why(session))
    else:
        click.echo(f"written: {path}; in VS Code, choose the entry under Run and Debug")
    sys.exit(_why(session)[0])


def _run(
    session: DebugSession, batch: Path | None, commands: Sequence[str], dap: bool, as_json: bool
) -> _Ended:
    if dap:
        return _Ended(_with_the_terminal(session.command("-i", "dap", shown=EDITOR)))
    if batch is None and not commands and not as_json:
        return _Ended(_with_the_terminal(session.command("-ex", "rtsim-start")))
    script = session.folder / "commands.gdb"
    lines = ["rtsim-start", *(_script(batch, commands) or ())]
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")  # an error in it ends gdb
    how: dict[str, Any] = {"stdin": subprocess.DEVNULL}
    if as_json:
        how |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with sigterm_interrupts():  # an interruption also ends gdb
        done = subprocess.run(
            session.command("-nx", "-batch", "-x", script),
            text=True,
            errors="replace",
            check=False,
            **how,
        )
    return _Ended(done.returncode, done.stdout or "")


def _with_the_terminal(command: Sequence[str | Path]) -> int:
    """Run gdb, to which Ctrl-C belongs while it runs."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def _report(session: DebugSession, ended: _Ended, as_json: bool) -> NoReturn:
    status, why = _why(session)
    if ended.status:
        status, why = FAILED, f"gdb ended with status {ended.status}"
    elif session.stopped() is None and not ended.output and as_json:
        status, why = FAILED, "gdb reached no step"
    if as_json:
        facts = _facts(session)
        show_result({**facts, "output": ended.output}, status, why)
    elif ended.status:
        click.echo(f"Error: {why}", err=True)
    sys.exit(status)


def _why(session: DebugSession) -> tuple[int, str]:
    answers = session.answers
    return answers.outcome.value, answers.in_words


def _facts(session: DebugSession) -> dict[str, Any]:
    steps = session.steps
    return {
        "recording": steps.source,
        "controller": steps.name,
        "at": short(steps.tag(session.target)),
        **session.at(session.target),
        "stopped": session.stopped(),
        "answers": session.answers.to_json(),
        "notes": list(session.notes),
        "gdb": session.gdb.version,
    }

"""Error messages, JSON output and exit statuses of all commands.

Exit status 0 means success, and 1 means that a check failed, as in a comparison or a replay. Exit
status 2 means that the command could not do its work, and 130 that the user interrupted it.
"""

from __future__ import annotations

import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from rtsim.core.errors import RtsimError
from rtsim.core.raised import (
    from_a_path,
    from_the_machine,
    in_words,
    interrupt,
    on_ctrl_c,
    on_signals,
    own_frames,
)

# JSON text with one line for each key and for each row of numbers, so that it is easy to read.


def _json_text(data: Any, indent: str = "") -> str:
    deeper = indent + "  "
    if isinstance(data, dict) and data:
        lines = [f"{deeper}{json.dumps(str(k))}: {_json_text(v, deeper)}" for k, v in data.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(data, list | tuple) and any(isinstance(v, dict | list | tuple) for v in data):
        lines = [deeper + _json_text(v, deeper) for v in data]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    return json.dumps(data, allow_nan=False)


NO, FAILED, INTERRUPTED = 1, 2, 130
_OUTCOMES = {0: "passed", NO: "failed"}
"""Outcome for each exit status. For any other exit status, the outcome is ``undecided``."""

_MOST_TOLD = 8000
"""Maximum length of an error message, characters. A traceback of the user's code fits."""

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")


def show_json(data: object) -> None:
    """Print ``data`` as JSON; numbers that are not finite become text ("nan", "inf")."""
    click.echo(_json_text(_finite(data)))


def show_result(data: Mapping[str, object], status: int = 0, why: str | None = None) -> None:
    """Print the result of a command as JSON, with its exit status and the reason for the status."""
    show_json(with_outcome(data, status, why))


def with_outcome(
    data: Mapping[str, object], status: int = 0, why: str | None = None
) -> dict[str, object]:
    """Return ``data`` with the keys ``outcome``, ``exit_status`` and ``why`` (docs/verdicts.md).

    An outcome in ``data`` other than ``passed`` is kept. Otherwise, ``status`` determines the
    outcome.
    """
    outcome = data.get("outcome", "passed")
    if outcome == "passed":  # --strict, or a command without a result, may change the status
        outcome = _OUTCOMES.get(status, "undecided")
    why = why if status else None
    return {**data, "outcome": outcome, "exit_status": status, "why": why}


def show_json_rows(name: str, rows: Iterable[object], rest: Mapping[str, object]) -> None:
    """Print a JSON object row by row, because all rows together may exceed the available memory.

    The list of rows has the key ``name`` and is the first entry of the object. ``rest`` are the
    other entries.
    """
    deeper = " " * 4
    gap = ""
    click.echo(f'{{\n  "{name}": [', nl=False)
    for row in rows:
        click.echo(f"{gap}\n{deeper}{_json_text(_finite(row), deeper)}", nl=False)
        gap = ","
    click.echo("\n  ]" if gap else "]", nl=False)
    for key, value in rest.items():
        click.echo(f',\n  "{key}": {_json_text(_finite(value), "  ")}', nl=False)
    click.echo("\n}")


def _finite(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    if isinstance(data, dict):
        return {str(k): _finite(v) for k, v in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(v) for v in data]
    return data


def reports_errors(command: F) -> F:
    """Decorate a command: report an exception as one message and an exit status.

    The exit status is 2 for an error, and 130 if the user interrupted the command.
    ``RTSIM_TRACEBACK=1`` in the environment prints the traceback too.
    """

    @wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        try:
            with on_ctrl_c(interrupt):
                return command(*args, **options)
        except KeyboardInterrupt as ended:
            why = str(ended) or "interrupted"
            tell("Interrupted", why, options.get("as_json"), INTERRUPTED)
            sys.exit(INTERRUPTED)
        except click.ClickException:
            raise
        except click.exceptions.Exit:
            raise
        except BrokenPipeError:  # the reader of the output (head, less) has closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except Exception as error:
            if os.environ.get("RTSIM_TRACEBACK"):
                traceback.print_exc()
            tell(type(error).__name__, explain(error), options.get("as_json"))
            sys.exit(FAILED)

    return run  # type: ignore[return-value]


def tell(kind: str, message: str, as_json: object, status: int = FAILED) -> None:
    """Print an error message on stderr, and with ``as_json`` also as JSON on stdout.

    ``status`` is the exit status of the command.
    """
    if as_json:
        show_result({"error": {"type": kind, "message": message}}, status, message)
    with suppress(OSError):  # the terminal has been closed
        click.secho(f"Error: {message}", err=True, fg="red")


def explain(error: Exception) -> str:
    """Return an error message that states whether rtsim or the user's code failed."""
    notes = getattr(error, "__notes__", [])
    if isinstance(error, RtsimError):
        return _shortened("\n".join([str(error), *notes]))
    hint = "RTSIM_TRACEBACK=1 shows the full stack"
    if lack := from_the_machine(error):
        return f"{lack}; {hint}"
    if own_frames(error):
        return "\n".join([f"your code raised {in_words(error)}; {hint}", *notes])
    if wrong := from_a_path(error):
        return f"{wrong}; {hint}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"internal error: {type(error).__name__}: {error} ({where}); {hint}"


def _shortened(message: str) -> str:
    if len(message) <= _MOST_TOLD:
        return message
    return f"{message[: _MOST_TOLD // 2]} ... {message[-_MOST_TOLD // 2 :]}"


def seconds(ns: int) -> str:
    """Return ``ns`` in seconds as an exact decimal with three or more decimals, such as 53.100."""
    sign, rest = ("-", -ns) if ns < 0 else ("", ns)
    decimals = f"{rest % 1_000_000_000:09d}".rstrip("0").ljust(3, "0")
    return f"{sign}{rest // 1_000_000_000}.{decimals}"


def sigterm_interrupts() -> AbstractContextManager[None]:
    """Context manager in which Ctrl-C, SIGTERM and SIGHUP raise ``rtsim.core.raised.Interrupted``.

    After such a signal, a run completes its recording before the command ends. Only the main thread
    may enter the context.
    """
    return on_signals(interrupt)

"""Load each command at its first use, and survive a closed pipe.

Late imports keep ``--help`` fast. If a program such as ``head`` closes the pipe, the command
continues without output. Any other failed write is an error.
"""

from __future__ import annotations

import ast
import errno
import importlib
import importlib.util
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import click

from rtsim.cli.common import reports_errors
from rtsim.core.errors import RtsimError

_NOBODY_READS = (errno.EPIPE, errno.EIO)
"""Error numbers of a pipe whose reader has ended, and of a terminal that has been closed."""


class OutputError(RtsimError):
    """Raised if standard output cannot be written."""


class _Output(io.TextIOWrapper):
    """Standard output that discards all text after a failed write."""

    lost = ""
    """Cause of a failed write.

    Empty if no write failed, or if only the reader has closed the pipe.
    """
    gone = False
    """True if the reader has closed the pipe."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            self._fail(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self.fileno())  # absorbs the text that is still in the buffer
        os.close(nothing)
        if error.errno in _NOBODY_READS:
            self.gone = True
            return
        self.lost = error.strerror or str(error)
        raise OutputError(_complaint(self.lost)) from error


def _complaint(why: str) -> str:
    return f"cannot write to standard output: {why}; the output of this command is incomplete"


def reader_gone() -> bool:
    """Return True if the program that reads standard output has closed the pipe.

    Endless output can then stop.
    """
    return bool(getattr(sys.stdout, "gone", False))


@contextmanager
def minded_output() -> Iterator[None]:
    """Context manager that ends the program with status 2 if standard output cannot be written."""
    if sys.stdout is None:
        _end("standard output is closed; redirect it to a file or to /dev/null")
    before = sys.stdout
    binary = getattr(before, "buffer", None)
    if not isinstance(getattr(binary, "raw", binary), io.FileIO):
        yield  # a test or a notebook has replaced standard output
        return
    before.flush()
    output = _Output(
        io.BufferedWriter(io.FileIO(before.fileno(), "wb", closefd=False)),
        before.encoding, before.errors,
        line_buffering=bool(before.line_buffering) or isinstance(binary, io.FileIO),
    )  # fmt: skip
    sys.stdout = output
    try:
        yield
    except OutputError as error:
        _end(str(error))
    finally:
        told = bool(output.lost)
        with suppress(OutputError):
            output.flush()
        sys.stdout = before
        if output.lost and not told:
            _end(_complaint(output.lost))


def _end(why: str) -> NoReturn:
    with suppress(OSError):
        sys.stderr.write(f"Error: {why}\n")
    sys.exit(2)


class Commands(click.Group):
    """A group of commands whose modules are imported when the commands are used.

    The function ``known`` returns a dict from command names to texts ``module:command``.
    """

    def __init__(self, *, known: Callable[[], Mapping[str, str]], **options: Any) -> None:
        super().__init__(**options)
        self._known = known

    def main(self, *args: Any, **extra: Any) -> Any:
        with minded_output():
            return super().main(*args, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self._known())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = self._known()
        if cmd_name not in known:
            import difflib

            near = difflib.get_close_matches(cmd_name, known, n=1)
            if near and not cmd_name.startswith("-"):
                ctx.fail(f"no such command {cmd_name!r}; did you mean {near[0]!r}?")
            return None
        return load_command(cmd_name, known[cmd_name])

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        """List the commands with the first sentence of their docstrings, without importing them."""
        known = self._known()
        limit = formatter.width - 6 - max(map(len, known), default=0)
        rows = [
            (name, click.Command(name, help=help_of(target)).get_short_help_str(limit))
            for name, target in known.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        return reports_errors(super().invoke)(ctx)  # also errors while a command is imported


def load_command(name: str, target: str) -> click.Command:
    """Import and return the command at ``module:name``.

    Raises ``RtsimError`` with the name of the package if the import fails.
    """
    module, _, attribute = target.partition(":")
    try:
        command = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise RtsimError(
            f"command {name!r} is at {target}, which cannot be imported: "
            f"{type(error).__name__}: {error}; repair or uninstall its package"
        ) from error
    if not isinstance(command, click.Command):
        raise RtsimError(
            f"command {name!r} is at {target}, which is a {type(command).__name__}; expected a "
            "click command: put @click.command() before the function"
        )
    return command


def help_of(target: str) -> str:
    """Return the docstring of a command, or the error if its package cannot be loaded."""
    try:
        return docstring_of(target)
    except (RtsimError, ImportError, SyntaxError) as error:
        return f"(cannot be loaded: {error})"


def docstring_of(target: str) -> str:
    module, _, name = target.partition(":")
    spec = importlib.util.find_spec(module)
    loader: Any = None if spec is None else spec.loader
    source = loader.get_source(module) if hasattr(loader, "get_source") else None
    # Parse only the function, because modules are long and a help page lists thirty commands.
    found = re.search(rf"^def {re.escape(name)}\b.*?(?=^[^\s)]|\Z)", source or "", re.M | re.S)
    if found is not None:
        with suppress(SyntaxError):
            return ast.get_docstring(ast.parse(found[0]).body[0]) or ""  # type: ignore[arg-type]
    return load_command(name, target).help or ""

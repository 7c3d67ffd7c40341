"""A click group that imports a command only when it is used, so that ``--help`` is fast."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import click

from rtsim.cli.common import reports_errors
from rtsim.cli.output import minded_output
from rtsim.core.errors import RtsimError


class Commands(click.Group):
    """A group of commands, each of which is given as the text ``module:command``.

    ``known`` returns the mapping of name to ``module:command``, in the order of the help;
    ``old`` maps deprecated names of commands to their present names.
    """

    def __init__(
        self,
        *,
        known: Callable[[], Mapping[str, str]],
        old: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._known = known
        self._old = dict(old or {})

    def main(self, *args: Any, **extra: Any) -> Any:
        with minded_output():
            return super().main(*args, **extra)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self._known())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = self._known()
        if cmd_name in self._old:
            new = self._old[cmd_name]
            if not ctx.resilient_parsing:
                path = ctx.command_path
                click.echo(f"'{path} {cmd_name}' is deprecated; type: {path} {new}", err=True)
            cmd_name = new
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
    """Return the command at ``module:name``.

    Raises :class:`RtsimError`, with the name of the package, if it cannot be imported.
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
    """Return the docstring of ``module:function``, read from the source without importing it."""
    module, _, name = target.partition(":")
    spec = importlib.util.find_spec(module)
    loader: Any = None if spec is None else spec.loader
    source = loader.get_source(module) if hasattr(loader, "get_source") else None
    for node in ast.parse(source or "").body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.get_docstring(node) or ""
    return load_command(name, target).help or ""

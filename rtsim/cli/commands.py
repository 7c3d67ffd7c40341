"""A group of commands, each loaded when it is asked for: ``--help`` stays quick."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from typing import Any

import click

from rtsim.cli.common import reports_errors


class Commands(click.Group):
    """``known`` gives name to ``module:command``, in the order of the help."""

    def __init__(self, *, known: Callable[[], Mapping[str, str]], **options: Any) -> None:
        super().__init__(**options)
        self._known = known

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self._known())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = self._known()
        if cmd_name not in known:
            near = difflib.get_close_matches(cmd_name, known, n=1)
            if near and not cmd_name.startswith("-"):
                ctx.fail(f"no such command {cmd_name!r}; did you mean {near[0]}?")
            return None
        module, _, name = known[cmd_name].partition(":")
        command: Any = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        return reports_errors(super().invoke)(ctx)  # what goes wrong while a command is loaded

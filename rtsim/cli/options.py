"""Options that several commands share, with their parsers and shell completion."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from rtsim.cli.common import F
from rtsim.core.errors import ScenarioError


def option(name: str, **changes: Any) -> Callable[[F], F]:
    """Return the shared option ``name``; ``changes`` replace its attributes.

    For example, a command can give the option a help text of its own.
    """
    flags, attributes = SHARED[name]
    return click.option(*flags, **{**attributes, **changes})


def with_options(command: Callable[..., Any], options: Iterable[Callable[[Any], Any]]) -> Any:
    """Add ``options`` to ``command``, in the order in which the help of the command lists them."""
    for one in reversed(tuple(options)):
        command = one(command)
    return command


def with_options_as(
    into: type[Any], argument: str, command: F, options: Iterable[Callable[[Any], Any]]
) -> F:
    """Add ``options`` to ``command``, and pass their values to the command as one object.

    The command receives the object in its parameter ``argument``. The dataclass ``into`` has one
    field for each option.
    """
    names = [one.name for one in fields(into) if one.metadata.get("typed", True)]

    @wraps(command)
    def packed(**given: Any) -> Any:
        own = {name: given.pop(name) for name in names if name in given}
        return command(**{argument: into(**own)}, **given)

    return with_options(packed, options)  # type: ignore[no-any-return]


def parse_settings(settings: tuple[str, ...]) -> dict[str, str]:
    """Return ``("a.b=1", ...)`` as a mapping of name to value.

    Raises :class:`ScenarioError` for a text without ``=``.
    """
    out = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ScenarioError(f"--set {setting!r} has no '=' and value; write --set NAME=VALUE")
        out[name.strip()] = value.strip()
    return out


def scenario_names(
    ctx: click.Context,  # noqa: ARG001
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[CompletionItem]:
    from rtsim.scenario.loading import known_scenarios

    names = [CompletionItem(n) for n in sorted(known_scenarios()) if n.startswith(incomplete)]
    return [CompletionItem(incomplete, type="file"), *names]


def setting_names(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[CompletionItem]:
    """Return shell completions ``NAME=`` for the option ``--set``.

    The completions are the arguments of the scenario on the command line and the values of its
    components. rtsim offers no completions for a scenario in a file, because a completion must not
    execute the file.
    """
    from rtsim.core.errors import RtsimError
    from rtsim.scenario.loading import find_maker, known_scenarios, load_scenario

    # An option without its value ends click's parsing. The scenario is then in ``ctx.args``.
    known = known_scenarios()
    typed = [word for word in (ctx.params.get("scenario"), *ctx.args) if word in known]
    if not typed or "=" in incomplete:
        return []
    reference = str(typed[0])
    try:
        import inspect

        names = list(inspect.signature(find_maker(reference)).parameters)
        for part_name, part in load_scenario(reference).components.items():
            for choice in part.settings():
                names += [f"{part_name}.{name}" for name in choice.signals.names]
    except RtsimError:  # its packages are missing here, or it needs arguments
        return []
    return [CompletionItem(f"{name}=") for name in names if name.startswith(incomplete)]


SHARED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "--set": (
        ("--set", "settings"),
        {
            "multiple": True,
            "metavar": "NAME=VALUE",
            "help": "Set an argument of the scenario (case=15), a value of a component "
            "(f16.cg=0.3) or a number of a fault (stuck.at=2.5); repeatable.",
            "shell_complete": setting_names,
        },
    ),
    "--seed": (
        ("--seed",),
        {
            "type": int,
            "help": "Seed of all random streams.  [default: that of --counterexample, else 0]",
        },
    ),
    "--faults": (
        ("--faults", "faults"),
        {
            "multiple": True,
            "type": click.Path(path_type=Path),
            "metavar": "FILE",
            "help": "Fault file to apply to the run (docs/faults.md); repeatable.",
        },
    ),
    "--require": (
        ("--require", "requirements"),
        {
            "multiple": True,
            "metavar": "REQUIREMENT",
            "help": "Requirement that the run must meet: NAME: FORMULA, or a requirement file "
            "(.toml); repeatable.",
        },
    ),
    "--counterexample": (
        ("--counterexample",),
        {
            "type": click.Path(path_type=Path, dir_okay=False),
            "metavar": "FILE",
            "help": "Repeat the run in this counterexample file (docs/counterexamples.md). "
            "Options on the command line replace values of the file.",
        },
    ),
    "--until": (
        ("--until",),
        {
            "default": None,
            "help": "Simulated time at which the run ends, s.  [default: the end time of the "
            "scenario]",
        },
    ),
    "--pace": (
        ("--pace",),
        {
            "default": "max",
            "show_default": True,
            "help": "Simulated seconds per second of wall-clock time (1.0 is real time), a "
            "fraction such as 1/3, or max (as fast as possible).",
        },
    ),
    "--record": (
        ("-o", "--record", "path"),
        {
            "type": click.Path(path_type=Path),
            "help": "Recording to write.  [default: runs/NAME-NNN.mcap]",
        },
    ),
    "--output": (("-o", "--output", "path"), {"type": click.Path(path_type=Path)}),
    "--force": (("--force",), {"is_flag": True, "help": "Overwrite an existing file."}),
    "--plain": (
        ("--plain",),
        {
            "is_flag": True,
            "help": "Run models and controllers as plain Python, without compilation.  The last "
            "bits can differ (docs/performance.md).",
        },
    ),
    "--keys": (
        ("--keys",),
        {
            "type": click.Path(path_type=Path),
            "help": "Client key file, needed if RUN is tcp://HOST:PORT: the FILE.client that "
            "'rtsim keys' wrote.",
        },
    ),
    "--mapping": (
        ("--mapping",),
        {
            "type": click.Path(path_type=Path, dir_okay=False),
            "metavar": "FILE.toml",
            "help": "TOML file that maps axes and keys to signals.  [default: rtsim's own mapping]",
        },
    ),
    "--scenario": (
        ("--scenario", "instead"),
        {
            "metavar": "FILE.py[:FUNCTION]",
            "default": None,
            "help": "Run this scenario instead of the scenario that the recording or checkpoint "
            "names.",
        },
    ),
    "--trust": (
        ("--trust",),
        {
            "is_flag": True,
            "help": "Permit the code that the recording or checkpoint names, even outside the "
            "current project (docs/trust.md).",
        },
    ),
}
"""Flags and attributes of each option that more than one command has."""


def trust_option(command: F) -> F:
    """Add the option ``--trust`` to a command that builds C code."""

    @wraps(command)
    def asked(trust: bool, **options: Any) -> Any:
        from rtsim.scenario.trust import permitted  # slow to load

        with permitted(everything=trust):
            return command(**options)

    return with_options(asked, [option("--trust")])  # type: ignore[no-any-return]


def trust_options(command: F) -> F:
    """Add ``--scenario`` and ``--trust`` to ``command``, which runs code that a file names."""

    @wraps(command)
    def asked(instead: str | None, trust: bool, **options: Any) -> Any:
        from rtsim.scenario.trust import permitted  # slow to load

        with permitted(instead, trust):
            return command(**options)

    return with_options(asked, [option("--scenario"), option("--trust")])  # type: ignore[no-any-return]

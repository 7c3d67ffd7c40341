"""Options that several commands share, with their parsers and shell completion."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from rtsim.cli.common import F
from rtsim.core.errors import ScenarioError
from rtsim.engine.compiled.stretch import AUTO, ENGINES
from rtsim.runs.request import RECORDER_DEATH
from rtsim.scenario.trust import permitted

recording_options = (
    click.option(
        "-o",
        "--record",
        "path",
        type=click.Path(path_type=Path),
        help="Recording to write.  [default: runs/NAME-NNN.mcap]",
    ),
    click.option("--no-record", is_flag=True, help="Write no recording."),
    click.option("--force", is_flag=True, help="Overwrite an existing recording."),
    click.option(
        "--on-recorder-death",
        type=click.Choice(RECORDER_DEATH),
        default="continue",
        show_default=True,
        help="What to do if the recording fails during the run: continue the run, or end it.  The "
        "exit status is 2 in both cases.",
    ),
)
compiling_options = (
    click.option(
        "--plain",
        is_flag=True,
        help="Run models and controllers as plain Python, without compilation.  The last bits can "
        "differ (docs/performance.md).",
    ),
    click.option("--checked", is_flag=True, help="Check every array index in compiled functions."),
    click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default=AUTO,
        show_default=True,
        help="Engine that runs the scenario: compiled code, or the interpreter, which is slower "
        "and helps with debugging.  Both give equal results.",
    ),
)


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


# Shell completion of scenarios and of the names that ``--set`` takes.


def scenario_names(
    ctx: click.Context,  # noqa: ARG001
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[CompletionItem]:
    """Complete SCENARIO with the names of 'rtsim scenarios', or else with file names."""
    from rtsim.scenario.loading import known_scenarios

    names = [CompletionItem(n) for n in sorted(known_scenarios()) if n.startswith(incomplete)]
    return [CompletionItem(incomplete, type="file"), *names]


def setting_names(
    ctx: click.Context,
    param: click.Parameter,  # noqa: ARG001
    incomplete: str,
) -> list[CompletionItem]:
    """Complete ``--set`` with ``NAME=`` of the scenario that was typed before it.

    The names are the scenario's arguments and the values of its components.  A scenario in a file
    is not completed: a key press must not execute the file.
    """
    from rtsim.core.errors import RtsimError
    from rtsim.scenario.loading import find_maker, known_scenarios, load_scenario

    # An option without its value ends click's parsing; then the scenario is in ``ctx.args``.
    known = known_scenarios()
    typed = [word for word in (ctx.params.get("scenario"), *ctx.args) if word in known]
    if not typed or "=" in incomplete:
        return []
    reference = str(typed[0])
    try:
        import inspect

        names = list(inspect.signature(find_maker(reference)).parameters)
        for part_name, part in load_scenario(reference).components.items():
            for choice in part.settable():
                names += [f"{part_name}.{name}" for name in choice.signals.names]
    except RtsimError:  # its packages are missing here, or it needs arguments
        return []
    return [CompletionItem(f"{name}=") for name in names if name.startswith(incomplete)]


# ``--scenario`` and ``--trust``: which code a recording or a checkpoint may run.

_scenario = click.option(
    "--scenario",
    "instead",
    metavar="FILE.py[:FUNCTION]",
    default=None,
    help="Run this scenario instead of the scenario that the recording or checkpoint names.",
)
_trust = click.option(
    "--trust",
    is_flag=True,
    help="Run the code that the recording or checkpoint names, in whichever folder it is stored "
    "(docs/trust.md).",
)


def trust_option(command: F) -> F:
    """Decorator: add ``--trust`` alone, for commands that build C code."""

    @wraps(command)
    def asked(trust: bool, **options: Any) -> Any:
        with permitted(everything=trust):
            return command(**options)

    decorated: Any = _trust(asked)
    return decorated  # type: ignore[no-any-return]


def trust_options(command: F) -> F:
    """Decorator: add ``--scenario`` and ``--trust``, for commands that run code named in files."""

    @wraps(command)
    def asked(instead: str | None, trust: bool, **options: Any) -> Any:
        with permitted(instead, trust):
            return command(**options)

    decorated: Any = _scenario(_trust(asked))
    return decorated  # type: ignore[no-any-return]

"""Shell completion of scenarios and of the names that ``--set`` takes."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


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

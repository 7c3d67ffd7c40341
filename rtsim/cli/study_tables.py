"""The results of a study as text."""

from __future__ import annotations

import math
from typing import Any

import click

from rtsim.studies.folder import Folder
from rtsim.studies.summary import command, shown, worst_case
from rtsim.studies.texts import runs_of


def print_study(folder: Folder, found: dict[str, Any]) -> None:
    """Print counts, estimates and pass rates of a study."""
    states = ", ".join(f"{many} {state}" for state, many in found["states"].items() if many)
    click.echo(f"{found['rows']} of {found['runs']} runs ({found['design']}): {states or 'none'}")
    for name, one in found["results"].items():
        click.echo(f"  {name}: {_estimate(one)}{_extremes(one)}")
    for name, one in found["requirements"].items():
        text = f"  {one['requirement']}: {_met(one)}"
        click.echo(text if name == one["result"] else f"{text} [{name}]")
    design = folder.plan.sampled
    if design.planned and not design.random and _has_intervals(found):
        click.echo(
            f"  the design {design.name} chooses its runs together; intervals hold only for "
            "independent runs"
        )
    stop = folder.plan.stopping
    if stop is not None:
        click.echo(f"  {stop.stated}")
    for name, rows in found.get("alternatives", {}).items():
        for row in rows:
            difference = row.get("difference")
            less = "" if difference is None else f"; difference {_estimate(difference)}"
            click.echo(f"  {name} at {row['value']}: {_estimate(row)}{less}")
    for guard, one in found["failures"].items():
        many = runs_of(one["runs"])
        click.echo(f"  failed at {guard}: {many}, first run {one['first_run']}: {one['failure']}")
    for state, row in _examples(folder, found):
        click.echo(f"  {state}: run {row['run']}: {row['cause']}")
    click.echo(f"folder: {folder.path}")


def print_search(folder: Folder, found: dict[str, Any]) -> None:
    """Print the worst run of a search, its factors, and how to repeat it."""
    one = worst_case(folder, found)
    click.echo(f"search of {found['search']['requirement']}: {one.ended}")
    for line in one.counts:
        click.echo(f"  {line}")
    if one.run is not None:
        click.echo(f"  {one.worst}:")
        for name, value in one.factors.items():
            click.echo(f"    {name} = {shown(value)}")
        click.echo(f"  repeat it: {command(folder, one.run, 'worst.mcap')}")


def print_sensitivity(result: str, indices: dict[str, dict[str, float]]) -> None:
    """Print the indices of each factor on one line."""
    click.echo(f"sensitivity of {result}")
    for name, one in indices.items():
        texts = []
        for key, value in one.items():
            half = one.get(f"{key}_half")
            if not key.endswith("_half"):
                less = "" if half is None else f" ± {half:.2g}"
                texts.append(f"{_WORDS.get(key, key)} {value:.4g}{less}")
        click.echo(f"  {name}: {', '.join(texts)}")


_WORDS = {"first": "first order", "mu_star": "mu*"}
"""What indices are called in the literature."""


def print_interactions(pairs: dict[tuple[str, str], dict[str, float]]) -> None:
    """Print the second-order index of each pair of factors on one line."""
    for (one, other), index in pairs.items():
        text = f"second order {index['second']:.3f} ± {index['second_half']:.3f}"
        click.echo(f"  {one} and {other}: {text}")


def _has_intervals(found: dict[str, Any]) -> bool:
    """Return whether the summary has an interval of a mean or of a pass rate."""
    return any("low" in one for kind in ("results", "requirements") for one in found[kind].values())


def _met(one: dict[str, Any]) -> str:
    """Return how many runs meet a requirement, and which run is the worst."""
    text = f"{one['passed']} of {one['count']} runs pass"
    if "share" in one:
        text += f", {one['share']:.4g} ({one['low']:.4g} to {one['high']:.4g})"
    if one["failed"]:
        text += f", {one['failed']} failed"
    if one["not_a_number"]:
        text += f", {one['not_a_number']} not a number"
    if one["without_result"]:
        text += f", {runs_of(one['without_result'])} without a result"
    if "worst_run" not in one:
        return text
    margin = one["worst_margin"]
    worst = "none (not a number)" if math.isnan(margin) else f"{margin:.4g}"
    return f"{text}; worst margin {worst} in run {one['worst_run']}"


def _estimate(one: dict[str, Any]) -> str:
    if "mean" not in one:
        return "no estimate"
    some = f" of {one['finite']} finite values" if one.get("not_finite") else ""
    return f"mean {one['mean']:.5g} ({one['low']:.5g} to {one['high']:.5g}){some}"


def _extremes(one: dict[str, Any]) -> str:
    less = f", {one['not_finite']} not finite" if one["not_finite"] else ""
    if "min" not in one:
        return less
    return f", from {one['min']:.5g} to {one['max']:.5g}{less}"


def _examples(folder: Folder, found: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the first run in each state without results, or with a NaN, with its cause."""
    told = ("ok", "failed")
    wanted = [state for state, many in found["states"].items() if many and state not in told]
    if not wanted:
        return []
    rows = folder.table("run", "state", "cause").to_pylist()
    return [(state, next(row for row in rows if row["state"] == state)) for state in wanted]

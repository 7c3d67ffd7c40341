"""The results of a study as text."""

from __future__ import annotations

import math
from typing import Any

import click

from rtsim.studies.folder import Folder


def print_study(folder: Folder, found: dict[str, Any]) -> None:
    """Print counts, estimates and pass rates of a study."""
    states = ", ".join(f"{many} {state}" for state, many in found["states"].items() if many)
    click.echo(f"{found['rows']} of {found['runs']} runs ({found['design']}): {states or 'none'}")
    for name, one in found["results"].items():
        click.echo(f"  {name}: {_estimate(one)}{_extremes(one)}")
    for name, one in found["requirements"].items():
        text = f"  {one['requirement']}: {_met(one)}"
        click.echo(text if name == one["requirement"].split()[0] else f"{text} [{name}]")
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
    for state, row in _examples(folder, found):
        click.echo(f"  {state}: run {row['run']}: {row['cause']}")
    click.echo(f"folder: {folder.path}")


_ENDS = {
    "converged": "the margins of the population are nearly equal",
    "maximum": "the largest number of runs is reached",
    "miss": "a run does not meet the requirement",
    "no margin": "a run has no margin",
    "": "the search has not ended",
}


def print_search(folder: Folder, found: dict[str, Any]) -> None:
    """Print the worst run of a search, its factors, and how to repeat it."""
    one, run = found["search"], found["search"]["worst_run"]
    ended, worst = _ENDS.get(found["ended"], found["ended"]), ""
    if one["worst_margin"] is not None:
        worst = f"worst margin {one['worst_margin']:.4g} in run {run}"
    elif run is not None:
        row = folder.row(run)
        why = f"{one['worst_state']}: {row['cause']}" if row else one["worst_state"]
        worst = f"worst: run {run} has no margin ({why})"
        if found["ended"] == "no margin":
            ended = worst.removeprefix("worst: ")
    click.echo(f"search of {one['requirement']}: {ended}")
    for line in _counts(one, found["rows"]):
        click.echo(f"  {line}")
    if worst:
        click.echo(f"  {worst}:")
        for name, value in one["factors"].items():
            click.echo(f"    {name} = {value if isinstance(value, str) else f'{value:.6g}'}")
        click.echo(f"  repeat it: rtsim study run {folder.path} {run} -o worst.mcap")


def _counts(one: dict[str, Any], rows: int) -> list[str]:
    """Return how many runs of a search miss the requirement or have no margin."""
    none, out = one["without_margin"], []
    if one["misses"]:
        text = f"{one['misses']} runs miss it; {one['first_miss'] + 1} runs were needed to find"
        out.append(f"{text} the first")
    elif rows > none or not rows:
        with_margin = f"{runs_of(rows - none)}{' with a margin' if none else ''}"
        out.append(f"no miss found in {with_margin}; this does not prove that none exists")
    if none:
        out.append(f"{none} runs have no margin, which counts as worse than every margin")
        if one["smallest_run"] is not None:
            least = one["smallest_margin"]
            out.append(f"smallest margin of the others {least:.4g} in run {one['smallest_run']}")
    return out


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
    if one["not_a_number"]:
        text += f", {one['not_a_number']} not a number"
    if one["without_result"]:
        text += f", {runs_of(one['without_result'])} without a result"
    if "worst_run" not in one:
        return text
    margin = one["worst_margin"]
    worst = "none (not a number)" if math.isnan(margin) else f"{margin:.4g}"
    return f"{text}; worst margin {worst} in run {one['worst_run']}"


def runs_of(count: int) -> str:
    """Return ``1 run`` or ``2 runs``."""
    return f"{count} run" if count == 1 else f"{count} runs"


def _estimate(one: dict[str, Any]) -> str:
    if "mean" not in one:
        return "no estimate"
    some = f" of {one['finite']} finite values" if one.get("not_finite") else ""
    return f"mean {one['mean']:.5g} ({one['low']:.5g} to {one['high']:.5g}){some}"


def _extremes(one: dict[str, Any]) -> str:
    if "min" not in one:
        return ""
    less = f", {one['not_finite']} not finite" if one["not_finite"] else ""
    return f", from {one['min']:.5g} to {one['max']:.5g}{less}"


def _examples(folder: Folder, found: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the first run in each state but ``ok``, with its cause."""
    wanted = [state for state, many in found["states"].items() if many and state != "ok"]
    if not wanted:
        return []
    rows = folder.table("run", "state", "cause").to_pylist()
    return [(state, next(row for row in rows if row["state"] == state)) for state in wanted]

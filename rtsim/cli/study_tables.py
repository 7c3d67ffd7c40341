"""The results of a study as text."""

from __future__ import annotations

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
        text = f"  {one['requirement']}: {one['passed']} of {one['count']} runs pass"
        if "share" in one:
            text += f", {one['share']:.4g} ({one['low']:.4g} to {one['high']:.4g})"
        if one.get("worst_run") is not None:
            text += f"; worst margin {one['worst_margin']:.4g} in run {one['worst_run']}"
        click.echo(text if name == one["requirement"].split()[0] else f"{text} [{name}]")
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
    "": "the search has not ended",
}


def print_search(folder: Folder, found: dict[str, Any]) -> None:
    """Print the worst run of a search, its factors, and how to repeat it."""
    one = found["search"]
    click.echo(f"search of {one['requirement']}: {_ENDS.get(found['ended'], found['ended'])}")
    if one["misses"]:
        runs = one["first_miss"] + 1
        click.echo(f"  {one['misses']} runs miss it; {runs} runs were needed to find the first")
    else:
        click.echo(f"  no miss found in {found['rows']} runs; this does not prove that none exists")
    if one["without_margin"]:
        click.echo(f"  {one['without_margin']} runs have no margin")
    if one["worst_run"] is not None:
        click.echo(f"  worst margin {one['worst_margin']:.4g} in run {one['worst_run']}:")
        for name, value in one["factors"].items():
            click.echo(f"    {name} = {value if isinstance(value, str) else f'{value:.6g}'}")
        click.echo(f"  repeat it: rtsim study run {folder.path} {one['worst_run']} -o worst.mcap")


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


def _estimate(one: dict[str, Any]) -> str:
    if "mean" not in one:
        return "no estimate"
    return f"mean {one['mean']:.5g} ({one['low']:.5g} to {one['high']:.5g})"


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

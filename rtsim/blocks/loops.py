"""The order in which blocks are evaluated, and loops in which there is none."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from rtsim.core.errors import ScenarioError

N = TypeVar("N", bound=Hashable)


def algebraic_loop(path: Sequence[str]) -> ScenarioError:
    """The error that names a loop; ``path`` in the direction of the signals."""
    return ScenarioError(
        f"algebraic loop: {' -> '.join((*path, path[0]))}: each needs the value of the one before "
        "at the same instant; break it by an Integrator or a TransferFunction (a small lag), by a "
        "UnitDelay or a ZeroOrderHold where it is sampled, or solve it for one of them by hand"
    )


def evaluation_order(nodes: Iterable[N], needs: Mapping[N, Iterable[N]]) -> list[N]:
    """Each behind all that it needs, ties in the order given.

    Returns fewer where there is a loop: :func:`find_loop` names it.
    """
    rank = {node: i for i, node in enumerate(nodes)}
    by_rank = list(rank)
    waiting = dict.fromkeys(rank, 0)
    readers: dict[N, list[N]] = {}
    for node in rank:
        for needed in set(needs.get(node, ())):
            waiting[node] += 1
            readers.setdefault(needed, []).append(node)
    ready = [rank[node] for node, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    out: list[N] = []
    while ready:
        node = by_rank[heapq.heappop(ready)]
        out.append(node)
        for reader in readers.get(node, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, rank[reader])
    return out


def find_loop(nodes: Sequence[N], ordered: Sequence[N], needs: Mapping[N, Iterable[N]]) -> list[N]:
    """One loop among the nodes that found no place in the order, in the signals' direction."""
    done = set(ordered)
    stuck = {node for node in nodes if node not in done}
    path: list[N] = []
    place: dict[N, int] = {}
    node = next(n for n in nodes if n in stuck)
    while node not in place:
        place[node] = len(path)
        path.append(node)
        node = next(n for n in needs[node] if n in stuck)
    return path[place[node] :][::-1]


def reachable(start: Iterable[N], needs: Mapping[N, Iterable[N]]) -> set[N]:
    """``start`` and all that it needs, however far."""
    found = set(start)
    waiting = list(found)
    while waiting:
        for needed in needs.get(waiting.pop(), ()):
            if needed not in found:
                found.add(needed)
                waiting.append(needed)
    return found

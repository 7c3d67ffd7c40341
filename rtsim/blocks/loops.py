"""The order in which blocks are evaluated, and algebraic loops, which have no such order."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from rtsim.core.errors import ScenarioError

N = TypeVar("N", bound=Hashable)


def algebraic_loop(path: Sequence[str]) -> ScenarioError:
    """Return the error that names a loop; ``path`` is in the direction of the signals."""
    return ScenarioError(
        f"algebraic loop: {' -> '.join((*path, path[0]))}: each block needs the output of the "
        "block before it at the same instant. Insert an Integrator or a TransferFunction (a small "
        "lag). In a sampled loop, insert a UnitDelay or a ZeroOrderHold. Or declare that the loop "
        f"is to be solved: solve({path[0]!r})"
    )


def evaluation_order(nodes: Iterable[N], needs: Mapping[N, Iterable[N]]) -> list[N]:
    """Return ``nodes`` sorted so that each node follows all nodes that it needs.

    Where several orders are possible, nodes keep their order in ``nodes``.  The result lacks the
    nodes of a loop and the nodes that need them; :func:`find_loop` finds the loop.
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
    """Return one loop among the nodes missing in ``ordered``, in the direction of the signals."""
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
    """Return ``start`` and all nodes that it needs, directly or indirectly."""
    found = set(start)
    waiting = list(found)
    while waiting:
        for needed in needs.get(waiting.pop(), ()):
            if needed not in found:
                found.add(needed)
                waiting.append(needed)
    return found

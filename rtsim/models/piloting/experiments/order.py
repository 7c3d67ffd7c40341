"""The order of conditions: balanced Latin squares, after E. J. Williams.

Source: E. J. Williams, "Experimental Designs Balanced for the Estimation of Residual Effects of
Treatments", Australian Journal of Scientific Research A 2 (1949).
"""

from __future__ import annotations

from rtsim.core.random_streams import RandomStreams


def williams(count: int) -> list[list[int]]:
    """Return rows of the numbers 0 to ``count`` - 1 in balanced orders.

    Each number is at each position equally often, and follows each other number equally often.  An
    even ``count`` needs ``count`` rows, an odd one twice as many.
    """
    first = [0]
    for k in range(1, count):
        first.append((k + 1) // 2 if k % 2 else count - k // 2)
    rows = [[(v + shift) % count for v in first] for shift in range(count)]
    if count % 2 and count > 1:
        rows += [row[::-1] for row in rows]
    return rows


def orders(count: int, participants: int, blocks: int, seed: int) -> list[list[list[int]]]:
    """Return the order of ``count`` conditions for each participant and block.

    The result depends on the arguments only.  Each block of a participant has each condition once.
    The rows of the square are given out in a random order, and all of them before one repeats.
    """
    rows = williams(count)
    stream = RandomStreams(seed).stream("experiment/order")
    names = stream.permutation(count).tolist()
    dealt: list[int] = []
    while len(dealt) < participants * blocks:
        dealt += stream.permutation(len(rows)).tolist()
    return [
        [[names[v] for v in rows[dealt[p * blocks + b]]] for b in range(blocks)]
        for p in range(participants)
    ]

"""Everything in the loop that is not Python: C processes, boards and rigs.

The rooms of this package open with the SIL work; the runtime they plug into is :mod:`rtsim`.
"""

"""Plants that another program computes: FMUs (:mod:`rtsim.fmi`) and JSBSim.

A plant of this package runs in a process of its own, so that a crash of its code cannot end the
simulation.  docs/fmi.md describes the use.
"""

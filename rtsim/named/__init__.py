"""Plants and controllers as Python classes with named signals.

:mod:`rtsim` exports all public names of this package (docs/classes.md).
"""

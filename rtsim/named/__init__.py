"""Plants and controllers as Python classes whose methods use signals by name.

:mod:`rtsim` exports all public names of this package (docs/classes.md).
"""

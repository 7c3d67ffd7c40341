"""Plants and controllers as classes, whose methods use signals by name.

:mod:`rtsim` has all public names of this package (docs/classes.md).
"""

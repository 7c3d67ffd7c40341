"""The version of rtsim, which pyproject.toml also uses."""

__version__ = "0.1.0"

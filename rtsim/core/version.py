"""The version of rtsim; pyproject.toml reads it from this module."""

__version__ = "0.1.0"

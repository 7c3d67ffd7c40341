"""Example models that rtsim contains, each with its published figures."""

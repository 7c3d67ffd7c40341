"""Example models that ship with rtsim, each with its published figures."""

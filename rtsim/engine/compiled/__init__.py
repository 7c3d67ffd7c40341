"""Stretches of simulated time in which everything that happens is compiled, run in one call."""

"""Rigs: what is at which pin of the I/O node, and the boards that emulate it."""

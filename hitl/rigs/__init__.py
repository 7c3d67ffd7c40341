"""Rigs: the signals at the pins of an I/O node, and the emulated boards that are wired to it."""

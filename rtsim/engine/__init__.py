"""Execution of a run: state, main loop, commands, faults and checkpoints."""

"""Execution of a run: its state, main loop, microsteps, commands, faults and checkpoints."""

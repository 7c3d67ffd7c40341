"""Comparison of C code with its reference model, step by step and in closed loop."""

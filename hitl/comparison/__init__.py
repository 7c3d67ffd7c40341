"""Compares C with its reference model, step by step and in the loop."""

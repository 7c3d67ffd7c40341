"""Checkpoints, the state of a run at a tag: take, keep, write and read them."""

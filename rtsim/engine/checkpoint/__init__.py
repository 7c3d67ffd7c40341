"""Checkpoints, which contain the state of a run at a tag: taking, storing, writing and reading."""

"""Take, write and read checkpoints, which contain the state of a run."""

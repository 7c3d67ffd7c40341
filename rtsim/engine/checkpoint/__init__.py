"""Take, keep, write and read checkpoints, which hold the state of a run at a tag."""

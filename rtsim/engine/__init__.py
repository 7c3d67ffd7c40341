"""One run from its first tag to its last: the system, its microsteps, commands and checkpoints."""

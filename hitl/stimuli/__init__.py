"""Generated stimuli: input sequences for branches that a run has missed."""

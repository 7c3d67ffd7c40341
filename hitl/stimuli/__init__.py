"""Generated stimuli: input sequences that reach branches that a run has missed."""

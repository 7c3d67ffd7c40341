"""Generated stimuli: input sequences that reach the branches which a run left open."""

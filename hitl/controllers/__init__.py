"""Controllers in C: in a process of their own, in this process, or on a board."""

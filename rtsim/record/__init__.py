"""What a run leaves behind: written while it flies, read, compared, replayed and reported."""

"""The whole of a run at a tag: taken, kept, written, read."""

"""Commands to a run in progress, each of which acts at a tag."""

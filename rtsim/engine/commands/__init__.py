"""Commands to a run in progress; each command acts at a tag."""

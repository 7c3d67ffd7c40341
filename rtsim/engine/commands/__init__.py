"""Commands to a run in progress, which act at tags."""

"""A run told what to do while it goes on: commands, latched at tags."""

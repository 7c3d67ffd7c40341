"""Worker processes that run a controller's C code, and the messages they exchange."""

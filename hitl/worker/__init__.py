"""Worker processes that run a controller's C code, and the messages to and from them."""

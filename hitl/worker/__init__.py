"""Worker processes that run a controller's C, and the messages to and from them."""

"""Processes that run the C code of controllers, and their messages."""

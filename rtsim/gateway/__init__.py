"""A run in progress, reached from outside: a process beside the loop that many can talk to.

The loop itself has one pipe to that process.  It reads it at its tags and writes to it in their
slack, never waits for it, and does not notice when it is flooded, hangs or dies.
"""

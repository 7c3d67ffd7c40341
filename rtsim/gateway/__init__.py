"""Live access to a run: a process beside the loop serves clients, telemetry and commands.

The loop itself has one pipe to that process.  It reads it at its tags and writes to it in their
slack, never waits for it, and does not notice when it is flooded, hangs or dies.
"""

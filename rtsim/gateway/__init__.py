"""Live access to a run: a process beside the loop serves clients, telemetry and commands.

A pipe connects the loop to this process, the gateway. The loop reads the pipe at each tag, writes
to the pipe after it has processed the tag, and never waits for the pipe. A gateway that is
overloaded, hangs or dies does not affect the run.
"""

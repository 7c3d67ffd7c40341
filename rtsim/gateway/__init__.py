"""Live access to a run: a process beside the loop serves clients, telemetry and commands.

A pipe connects the simulation loop to the gateway process. The loop reads commands from the pipe at
each tag, writes samples after the tag, and never waits. A gateway that is slow or has crashed does
not affect the run.
"""

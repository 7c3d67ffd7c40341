"""Live access to a run: a process beside the loop serves clients, telemetry and commands.

One pipe connects the loop to this gateway process.  The loop reads the pipe at each tag, writes to
it in the slack of a frame, and never waits for it.  A gateway that is overloaded, hangs or dies
does not affect the run.
"""

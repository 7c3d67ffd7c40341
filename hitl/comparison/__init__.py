"""Compare C code with its reference controller, in open loop and in closed loop."""

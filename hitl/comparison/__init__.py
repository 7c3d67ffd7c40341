"""A translation held against its design: step by step, and in the loop."""

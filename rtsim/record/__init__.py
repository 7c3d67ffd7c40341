"""Recordings of runs: writing, reading, comparing and reporting them."""

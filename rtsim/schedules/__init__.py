"""Schedules of simulated processors: analysis of response times, and simulated jobs."""

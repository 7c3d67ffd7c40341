"""Experiments with pilots: participants, conditions, a balanced order, questions, one table.

docs/tasks.md has an example.
"""

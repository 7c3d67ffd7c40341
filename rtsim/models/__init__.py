"""Example models, each checked against published figures."""

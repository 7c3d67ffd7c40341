"""Connections between processes: ZeroMQ sockets, their keys, and MessagePack."""

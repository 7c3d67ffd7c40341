"""The runtime's controllers whose law is C on this machine."""

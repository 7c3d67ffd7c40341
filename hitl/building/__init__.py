"""Builds of programs and libraries from an interface file, with the system's C compiler."""

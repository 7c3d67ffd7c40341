"""Build programs and libraries from an interface file, with a C compiler."""

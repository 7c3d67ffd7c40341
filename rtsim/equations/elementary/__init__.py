"""Define elementary functions that give the same bits on each processor and in each system.

The functions use only operations that IEEE 754 defines exactly: the four basic operations, square
roots, comparisons, and operations on the bits of a number. A multiplication and an addition are
never fused. No function branches, except for arguments that are rare and named in its module, so
that compiled code can evaluate a function for several arguments at once.
"""

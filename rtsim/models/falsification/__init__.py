"""Models of the benchmarks for falsification: an automatic transmission and chasing cars.

The benchmarks are those of ARCH-COMP, a yearly competition of programs that search inputs for which
a model violates a requirement. ``docs/falsification-benchmarks.md`` names the sources.
"""

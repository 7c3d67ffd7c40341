"""Models of the benchmarks for falsification: an automatic transmission and chasing cars.

The benchmarks are from ARCH-COMP, a yearly competition of programs that search for violations of
requirements. ``docs/falsification-benchmarks.md`` names the sources.
"""

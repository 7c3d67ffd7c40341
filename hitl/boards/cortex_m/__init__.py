"""Emulate boards with a Cortex-M4F processor by unicorn, in a process of its own.

A class of peripherals describes a chip (:mod:`hitl.boards.cortex_m.stm32f4`). The processor, its
cycles and the messages to rtsim do not depend on the chip.
"""

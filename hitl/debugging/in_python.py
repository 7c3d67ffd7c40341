"""Debug a controller in Python at a recorded step, with pdb."""


def is_python(steps):
    return False


def debug_in_python(*a):
    return 0

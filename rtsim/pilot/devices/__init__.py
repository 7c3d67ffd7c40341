"""Input devices (joystick, gamepad, keyboard, mouse), and the values of the stick computed from
them.
"""

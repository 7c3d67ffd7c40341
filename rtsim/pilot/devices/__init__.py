"""Input devices (joystick, gamepad, keyboard and mouse), and the stick values from them."""

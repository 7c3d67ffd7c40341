"""Input devices (joystick, gamepad, keyboard, mouse), and the stick values computed from them."""

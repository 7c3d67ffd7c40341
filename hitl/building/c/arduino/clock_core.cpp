/* On a board with an Arduino core, the clock is the core's. */
#include "rtsim_arduino.h"

void rtsim_pins_start(bool output);

void rtsim_arduino_start(bool serial_is_output)
{
    rtsim_pins_start(serial_is_output);
}

void rtsim_arduino_step(void)
{
}

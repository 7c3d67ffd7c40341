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

/* The counters of the core's timer 0, which overflows every 1024 us.  They count on from here, but only
 * a reset begins the clock again. */
extern "C" {
extern volatile unsigned long timer0_overflow_count, timer0_millis;
}

void rtsim_clock_begin(uint32_t us, uint32_t ms)
{
    static bool begun;
    if (begun) return;
    begun = true;
    noInterrupts();
    timer0_overflow_count += us / 1024u;
    timer0_millis += ms;
    interrupts();
}

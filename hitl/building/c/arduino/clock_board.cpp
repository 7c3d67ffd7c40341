/* On a board without an Arduino core, the clock is that of the board's own files. */
#include <Arduino.h>

#include "../rtsim/board.h"

void rtsim_pins_start(bool output);

void rtsim_arduino_start(bool serial_is_output)
{
    randomSeed(1);
    rtsim_pins_start(serial_is_output);
}

void rtsim_arduino_step(void)
{
}

static uint32_t begun_us, ms;

void rtsim_clock_begin(uint32_t us, uint32_t at_ms)
{
    static bool begun;
    if (begun) return;
    begun = true;
    begun_us = us;
    ms = at_ms;
}

unsigned long micros(void)
{
    return (uint32_t)(rtsim_micros() + begun_us);
}

/* micros() overflows after 71 minutes; millis() must not, so it adds up what has passed.  A controller
 * that reads neither for longer than that loses time. */
unsigned long millis(void)
{
    static uint32_t last, rest;
    uint32_t now = rtsim_micros();
    uint32_t passed = now - last;
    last = now;
    ms += passed / 1000u;
    rest += passed % 1000u;
    ms += rest / 1000u;
    rest %= 1000u;
    return ms;
}

void delayMicroseconds(unsigned int us)
{
    uint32_t began = rtsim_micros();
    while (rtsim_micros() - began < us) {
    }
}

void delay(unsigned long ms)
{
    while (ms--) delayMicroseconds(1000);
}

void yield(void)
{
}

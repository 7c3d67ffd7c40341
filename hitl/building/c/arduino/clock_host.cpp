/* The clock in SIL: simulated time plus the time of the first step, in steps of the board's timer.
 *
 * During a step simulated time stands still.  Each reading of the clock takes 1 us, so that a loop that
 * waits for a time ends; delay() takes its time.  A step that takes longer than its period makes the
 * next step begin late, as on a board. */
#include <Arduino.h>

#include <exception>
#include <stdio.h>

#include "rtsim_unit.h"

extern "C" {
extern const long long rtsim_setup_us, rtsim_first_step_us;
extern const bool rtsim_timer_is_avr;
}
void rtsim_pins_start(bool output);

/* hitl/worker/refusal.py knows its name. */
class rtsim_wrapped : public std::exception {
  public:
    explicit rtsim_wrapped(const char *call)
    {
        snprintf(text_, sizeof text_,
                 "%s() is beyond its largest value, 2^32 - 1, after which it is 0 on a board. unsigned "
                 "long has %u bits on this host; "
                 "run the code on an emulated board, with BoardController (docs/arduino.md)",
                 call, (unsigned)(8 * sizeof(unsigned long)));
    }
    const char *what() const noexcept override { return text_; }

  private:
    char text_[200];
};

static long long now_us; /* since the reset, and what the clock showed then */

/* On a board an unsigned long has 32 bits, and so has the clock.  Here it may have 64, and then
 * differences of times are others after the clock's wrap-around: no result is better than a wrong one. */
static unsigned long shown(const char *call, long long time)
{
    if (sizeof(unsigned long) > 4 && time >> 32) throw rtsim_wrapped(call);
    return (unsigned long)time;
}

void rtsim_clock_begin(uint32_t, uint32_t) /* rtsim_setup_us has it */
{
}

void rtsim_arduino_start(bool serial_is_output)
{
    now_us = rtsim_setup_us;
    randomSeed(1);
    rtsim_pins_start(serial_is_output);
}

void rtsim_arduino_step(void)
{
    long long due = rtsim_first_step_us + rtsim_time_ns / 1000;
    if (due > now_us) now_us = due;
}

/* Timer 0 of an AVR board with 16 MHz counts every 4 us and overflows every 1024 us.  The core adds 1 ms
 * at each overflow, and another ms whenever the remainders of 24 us have added up to one. */
unsigned long millis(void)
{
    now_us++;
    long long ms = rtsim_timer_is_avr ? now_us / 1024 * 128 / 125 : now_us / 1000;
    return shown("millis", ms);
}

unsigned long micros(void)
{
    now_us++;
    return shown("micros", rtsim_timer_is_avr ? now_us / 4 * 4 : now_us);
}

void delay(unsigned long ms)
{
    now_us += (long long)ms * 1000;
}

void delayMicroseconds(unsigned int us)
{
    now_us += us;
}

void yield(void)
{
}

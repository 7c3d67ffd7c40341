/* A controller on an Arduino Uno: bytes from the serial line to the dispatcher, and its answers back.
 * docs/protocol.md says what they mean. */
#include <avr/interrupt.h>
#include <avr/sleep.h>

#include "board.h"
#include "uno.h"

#ifndef RTSIM_BAUD
#define RTSIM_BAUD 500000
#endif

void setup()
{
    uint16_t size;
    const uint8_t *frame;

    rtsim_uno_begin();
    Serial.begin(RTSIM_BAUD);
    frame = rtsim_board_begin(rtsim_uno_nonce(), rtsim_uno_cause(), &size);
    Serial.write(frame, size);
}

/* Sleeps until the next interrupt, unless a byte is there.  With interrupts off none can come between
 * the question and the sleep; the one instruction after sei() is executed before any interrupt. */
static void doze()
{
    set_sleep_mode(SLEEP_MODE_IDLE);
    cli();
    if (!Serial.available()) {
        sleep_enable();
        sei();
        sleep_cpu();
        sleep_disable();
    }
    sei();
}

void loop()
{
    while (Serial.available()) {
        uint16_t size;
        const uint8_t *frame = rtsim_board_feed(Serial.read(), &size);
        if (frame) {
            Serial.write(frame, size);
            rtsim_uno_scan();
        }
    }
    rtsim_idle();
    if (!rtsim_uno_scanning()) {
        doze();
    }
}

/* Times work by Timer 1 and reports the cycles, little-endian: integer, float, and interrupted work,
 * for each byte that it receives; the byte is the length of the work. */
#include <avr/interrupt.h>

#include "serial.h"

static volatile float f = 1.0f;
static volatile uint8_t interrupts;

ISR(TIMER0_COMPA_vect) { interrupts++; }

static void integers(uint8_t n) {
    volatile uint16_t sum = 0;
    while (n--) sum = (uint16_t)(sum * 31U + n);
}

static void floats(uint8_t n) {
    f = 1.0f;
    while (n--) f = f * 1.01f + 0.5f / f;
}

static void report(uint16_t cycles) {
    serial_write((uint8_t)cycles);
    serial_write((uint8_t)(cycles >> 8));
}

static uint16_t timed(void (*work)(uint8_t), uint8_t n) {
    TCNT1 = 0;
    uint16_t before = TCNT1;
    work(n);
    return TCNT1 - before;
}

int main(void) {
    serial_begin();
    TCCR1B = _BV(CS10);
    for (;;) {
        uint8_t n = serial_read();
        report(timed(integers, n));
        report(timed(floats, n));
        interrupts = 0;
        TCNT0 = 0;
        OCR0A = 199;
        TIFR0 = _BV(OCF0A);
        TCCR0A = _BV(WGM01);
        TCCR0B = _BV(CS00);
        TIMSK0 = _BV(OCIE0A);
        sei();
        uint16_t interrupted = timed(floats, n);
        cli();
        TCCR0B = 0;
        report(interrupted);
        serial_write(interrupts);
    }
}

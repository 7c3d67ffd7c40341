/* The serial line of the test programs: polled, 8 bits, no parity, double speed. */
#ifndef TEST_SERIAL_H
#define TEST_SERIAL_H

#include <avr/io.h>
#include <stdint.h>

#ifndef BAUD
#define BAUD 500000UL
#endif
#define DIVISOR ((uint16_t)((F_CPU + BAUD * 4UL) / (BAUD * 8UL) - 1UL))

static inline void serial_begin(void) {
    UCSR0A = _BV(U2X0);
    UBRR0 = DIVISOR;
    UCSR0B = _BV(RXEN0) | _BV(TXEN0);
}

static inline uint8_t serial_read(void) {
    while (!(UCSR0A & _BV(RXC0))) {
    }
    return UDR0;
}

static inline void serial_write(uint8_t value) {
    while (!(UCSR0A & _BV(UDRE0))) {
    }
    UDR0 = value;
}

#endif

/* A controller on an Arduino Mega 2560: serial line, clock, stack. */
#include <avr/interrupt.h>
#include <avr/io.h>

#include "board.h"

#define PAINT 0xC5
#define CLEAN 32 /* painted bytes in a row below which the stack is taken as unused */

extern uint8_t __heap_start; /* the first byte above the data */
const uint32_t rtsim_clock_hz = F_CPU;

static uint32_t nonce __attribute__((section(".noinit")));
static uint8_t *mark; /* the lowest byte of stack known to have been used */
static volatile uint32_t overflows;

ISR(TIMER1_OVF_vect)
{
    overflows++;
}

static uint64_t cycles(void)
{
    uint8_t interrupts = SREG;
    uint16_t low;
    uint32_t high;
    cli();
    low = TCNT1;
    high = overflows;
    if ((TIFR1 & _BV(TOV1)) && low < 0x8000u) {
        high++;
    }
    SREG = interrupts;
    return (uint64_t)high << 16 | low;
}

uint32_t rtsim_cycles(void)
{
    return (uint32_t)cycles();
}

uint32_t rtsim_micros(void)
{
    return (uint32_t)(cycles() / (F_CPU / 1000000UL));
}

uint16_t rtsim_stack_used(void)
{
    uint8_t *at = mark, clean = 0;
    while (at > &__heap_start && clean < CLEAN) {
        at--;
        clean = *at == PAINT ? clean + 1 : 0;
        if (clean == 0) {
            mark = at;
        }
    }
    return (uint16_t)((uint8_t *)RAMEND - mark + 1);
}

uint16_t rtsim_stack_bytes(void)
{
    return (uint16_t)((uint8_t *)RAMEND - &__heap_start + 1);
}

static void send(const uint8_t *frame, uint16_t size)
{
    while (size--) {
        while (!(UCSR0A & _BV(UDRE0))) {
        }
        UDR0 = *frame++;
    }
}

int main(void)
{
    uint8_t cause = MCUSR & 0x0F;
    const uint8_t *frame;
    uint16_t size;

    MCUSR = 0;
    nonce = nonce * 1664525u + 1013904223u; /* another one after each reset */
    mark = (uint8_t *)SP - CLEAN;
    for (uint8_t *at = &__heap_start; at < mark; at++) {
        *at = PAINT;
    }
    TCCR1B = _BV(CS10);
    TIMSK1 = _BV(TOIE1);
    UBRR0 = F_CPU / 8 / RTSIM_BAUD - 1;
    UCSR0A = _BV(U2X0);
    UCSR0B = _BV(RXEN0) | _BV(TXEN0);
    sei();
    frame = rtsim_board_begin(nonce, cause, &size);
    send(frame, size);
    for (;;) {
        if (!(UCSR0A & _BV(RXC0))) {
            rtsim_idle();
            continue;
        }
        frame = rtsim_board_feed(UDR0, &size);
        if (frame) {
            send(frame, size);
        }
    }
}

#include "uno.h"

#include <Arduino.h>
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/wdt.h>

#include "board.h"

#define CANARY 0xC5
#define WINDOW 32 /* bytes below the mark that are looked at before each reply */
#define SLICE 16  /* bytes that are looked at before the serial line is asked again */
#define GUARD 16  /* bytes above the data that tell of an overflow when one has changed */

extern uint8_t __heap_start;                           /* the first byte above the data */
extern uint8_t *__brkval __attribute__((weak));        /* the heap's end, where malloc is used */
const uint32_t rtsim_clock_hz = F_CPU;

static uint32_t nonce __attribute__((section(".noinit")));
static uint8_t cause __attribute__((section(".noinit")));
static uint8_t *mark;               /* the lowest byte of stack known to have been used */
static uint8_t *scanned;            /* all below was as it was painted, when it was looked at */
static uint8_t again;               /* something may have used more since then */
static volatile uint16_t overflows; /* of Timer 1 */

/* Before main, with the stack still empty.  A boot loader clears MCUSR, and optiboot hands it over in
 * r2.  A watchdog that has reset the processor goes on running, at its shortest, until told. */
void rtsim_uno_boot(void) __attribute__((naked, used, section(".init3")));
void rtsim_uno_boot(void)
{
    __asm__ __volatile__(
        "in r24, %[mcusr]\n"
        "cpse r24, __zero_reg__\n"
        "mov r2, r24\n"
        "sts %[cause], r2\n"
        "out %[mcusr], __zero_reg__\n"
        /* paint the stack */
        "ldi r30, lo8(__heap_start)\n"
        "ldi r31, hi8(__heap_start)\n"
        "ldi r24, %[canary]\n"
        "ldi r25, hi8(%[end])\n"
        "1: st Z+, r24\n"
        "cpi r30, lo8(%[end])\n"
        "cpc r31, r25\n"
        "brlo 1b\n" ::[mcusr] "I"(_SFR_IO_ADDR(MCUSR)),
        [cause] "i"(&cause), [canary] "i"(CANARY), [end] "i"(RAMEND + 1)
        : "r2", "r24", "r25", "r30", "r31");
    wdt_disable();
}

ISR(TIMER1_OVF_vect)
{
    overflows++;
}

void rtsim_uno_begin(void)
{
    nonce = nonce * 1664525u + 1013904223u; /* never the one before */
    mark = scanned = (uint8_t *)RAMEND;
    rtsim_uno_scan();
    TCCR1A = 0;
    TCCR1B = _BV(CS10);
    TIMSK1 = _BV(TOIE1);
}

uint32_t rtsim_uno_nonce(void)
{
    return nonce;
}

uint8_t rtsim_uno_cause(void)
{
    return cause & 0x0F;
}

uint32_t rtsim_micros(void)
{
    return micros();
}

uint32_t rtsim_cycles(void)
{
    uint8_t interrupts = SREG;
    uint16_t low, high;
    cli();
    low = TCNT1;
    high = overflows;
    if ((TIFR1 & _BV(TOV1)) && low < 0x8000u) {
        high++;
    }
    SREG = interrupts;
    return (uint32_t)high << 16 | low;
}

static uint8_t *bottom(void)
{
    uint8_t **end = &__brkval;
    return end && *end ? *end : &__heap_start;
}

/* The lowest byte from `at` on that is not as it was painted, and is below the mark, is the mark. */
static void look(uint8_t *at)
{
    uint8_t *end = mark;
    while (at < end && *at == CANARY) {
        at++;
    }
    mark = at;
}

void rtsim_uno_scan(void)
{
    again = 1;
}

uint8_t rtsim_uno_scanning(void)
{
    uint8_t *from = scanned, *end = mark;
    uint8_t left = SLICE;
    if (from >= end) {
        if (!again) {
            return 0;
        }
        again = 0;
        scanned = bottom();
        return 1;
    }
    while (*from == CANARY) {
        from++;
        if (from == end || --left == 0) {
            scanned = from;
            return 1;
        }
    }
    mark = from;
    return 1;
}

/* The whole stack takes too long before each reply: what a step newly used adjoins what was used,
 * or is found by the scan, or has come down to the data. */
uint16_t rtsim_stack_used(void)
{
    uint8_t *low = bottom(), *before;
    uint8_t k;
    for (k = 0; k < GUARD; k++) {
        if (low[k] != CANARY) {
            return rtsim_stack_bytes();
        }
    }
    do {
        before = mark;
        look(before - low > WINDOW ? before - WINDOW : low);
    } while (mark < before);
    return (uint16_t)((uint8_t *)RAMEND - mark + 1);
}

uint16_t rtsim_stack_bytes(void)
{
    return (uint16_t)((uint8_t *)RAMEND - bottom() + 1);
}

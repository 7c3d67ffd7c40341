/* The I/O node (io_node.h) on an ATmega2560 at 16 MHz: the pins D2 to D13 and A0 to A5 of an Arduino
 * Mega 2560.  PWM is at D9 and D10 (Timer 2), and edges are stamped at D10 to D13, which are the only
 * ones of these pins with a pin change interrupt. */
#include "io_node.h"

#include <avr/interrupt.h>
#include <avr/io.h>
#include <util/atomic.h>

uint32_t rtsim_cycles(void); /* the board's; Timer 1 */

#define MS (F_CPU / 1000)
enum { E, G, H, B, F, PORTS };
enum { EACH = 6, D9 = 7, D10 = 8, A0 = 12 };

typedef struct {
    uint8_t port, mask;
} place;

/* What the interrupt works on; it never touches the caller's io_node. */
typedef struct {
    uint32_t rise, fall, width;
    uint16_t rises, falls;
    uint8_t mask, high;
} pulse;

static volatile uint8_t *const pins[PORTS] = {&PINE, &PING, &PINH, &PINB, &PINF}; /* then DDR, PORT */
static const place at[IO_NODE_PINS] = {
    {E, 1 << 4}, {E, 1 << 5}, {G, 1 << 5}, {E, 1 << 3}, {H, 1 << 3}, {H, 1 << 4}, /* D2 to D7 */
    {H, 1 << 5}, {H, 1 << 6}, {B, 1 << 4}, {B, 1 << 5}, {B, 1 << 6}, {B, 1 << 7}, /* D8 to D13 */
    {F, 1 << 0}, {F, 1 << 1}, {F, 1 << 2}, {F, 1 << 3}, {F, 1 << 4}, {F, 1 << 5}, /* A0 to A5 */
};
static uint8_t out_mask[PORTS], out_safe[PORTS]; /* digital outputs, and their safe levels */
static uint8_t safe_duty[2];                     /* D9, D10 */
static volatile pulse watched[IO_NODE_PULSES];
static volatile uint16_t silent_ms, limit_ms;
static volatile uint8_t silences;

static void set(uint8_t port, uint8_t levels)
{
    volatile uint8_t *const drive = pins[port] + 2;
    *drive = (uint8_t)((*drive & ~out_mask[port]) | (levels & out_mask[port]));
}

static void set_duties(uint8_t d9, uint8_t d10)
{
    OCR2B = d9;
    OCR2A = d10;
}

static void drive_safe(void)
{
    for (uint8_t port = 0; port < PORTS; port++) set(port, out_safe[port]);
    set_duties(safe_duty[0], safe_duty[1]);
}

/* ---- silence.  Runs whatever the main program does, once a ms from the last step on. */
ISR(TIMER1_COMPA_vect)
{
    OCR1A += MS;
    if (silent_ms < limit_ms && ++silent_ms == limit_ms) {
        drive_safe();
        silences++;
    }
}

static void heard(void)
{
    OCR1A = TCNT1 + MS;
    TIFR1 = _BV(OCF1A);
    silent_ms = 0;
}

/* ---- edges.  A pulse that is over before the interrupt reads the pin leaves nothing. */
ISR(PCINT0_vect)
{
    uint32_t now = rtsim_cycles();
    uint8_t levels = PINB;
    for (uint8_t k = 0; k < IO_NODE_PULSES; k++) {
        volatile pulse *one = &watched[k];
        uint8_t high = levels & one->mask;
        if (high == one->high) continue;
        one->high = high;
        if (high) {
            one->rise = now;
            one->rises++;
        } else {
            one->fall = now;
            one->falls++;
            if (one->rises) one->width = now - one->rise;
        }
    }
}

static void watch(const io_node *self)
{
    uint8_t masks = 0;
    for (uint8_t k = 0; k < IO_NODE_PULSES; k++) {
        pulse none = {0};
        uint8_t pin = self->pulses[k];
        if (pin < IO_NODE_PINS && at[pin].port == B) {
            none.mask = at[pin].mask;
            none.high = PINB & none.mask;
            masks |= none.mask;
        }
        watched[k] = none;
    }
    PCMSK0 = masks;
    PCIFR = _BV(PCIF0);
    PCICR = _BV(PCIE0);
}

/* ---- pins */
static void configure_port(const io_node *self, uint8_t port)
{
    uint8_t driven = 0, pulled = 0, ours = 0;
    out_mask[port] = out_safe[port] = 0;
    for (uint8_t pin = 0; pin < IO_NODE_PINS; pin++) {
        uint8_t mask = at[pin].mask, kind = self->kinds[pin];
        if (at[pin].port != port) continue;
        ours |= mask;
        if (kind == IO_DIGITAL_OUT) {
            out_mask[port] |= mask;
            if (self->safe[pin]) out_safe[port] |= mask;
        }
        if (kind == IO_DIGITAL_OUT || kind == IO_PWM_OUT) driven |= mask;
        if (kind == IO_PULLED_UP) pulled |= mask;
    }
    pins[port][1] &= (uint8_t)(driven | ~ours); /* first what drives no longer */
    pins[port][2] = (uint8_t)((pins[port][2] & ~ours) | out_safe[port] | pulled);
    pins[port][1] |= driven;
}

static void configure_pwm(const io_node *self)
{
    safe_duty[0] = self->safe[D9];
    safe_duty[1] = self->safe[D10];
    uint8_t mode = _BV(WGM20);
    if (self->kinds[D9] == IO_PWM_OUT) mode |= _BV(COM2B1);
    if (self->kinds[D10] == IO_PWM_OUT) mode |= _BV(COM2A1);
    if (!(TCCR2A & (_BV(COM2B1) | _BV(COM2A1)))) TCCR2A = 0; /* a compare value is taken at once */
    set_duties(safe_duty[0], safe_duty[1]);
    TCCR2A = mode;
    TCCR2B = _BV(CS20);
}

static uint8_t analog(const io_node *self)
{
    uint8_t mask = 0;
    for (uint8_t k = 0; k < EACH; k++)
        if (self->kinds[A0 + k] == IO_ADC_IN) mask |= (uint8_t)(1 << k);
    return mask;
}

void io_node_initialize(io_node *self)
{
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        configure_pwm(self); /* before a pin of its is an output */
        for (uint8_t port = 0; port < PORTS; port++) configure_port(self, port);
        DIDR0 = analog(self);
        watch(self);
        silent_ms = limit_ms = self->watchdog; /* it is safe until the first step */
        silences = 0;
        TIMSK1 |= _BV(OCIE1A);
    }
    if (DIDR0) ADCSRA = _BV(ADEN) | _BV(ADPS2) | _BV(ADPS1) | _BV(ADPS0); /* 125 kHz */
}

static uint16_t converted(uint8_t channel)
{
    ADMUX = _BV(REFS0) | channel;
    ADCSRA |= _BV(ADSC);
    while (ADCSRA & _BV(ADSC)) {
    }
    return ADC;
}

static void report(io_node *self)
{
    self->silences = silences;
    self->levels[0] = self->levels[1] = self->levels[2] = 0;
    for (uint8_t pin = 0; pin < IO_NODE_PINS; pin++)
        if (*pins[at[pin].port] & at[pin].mask) self->levels[pin / EACH] |= (uint8_t)(1 << pin % EACH);
    for (uint8_t k = 0; k < IO_NODE_PULSES; k++) {
        volatile const pulse *one = &watched[k];
        self->rise[k] = one->rise;
        self->fall[k] = one->fall;
        self->width[k] = one->width;
        self->rises[k] = one->rises;
        self->falls[k] = one->falls;
    }
}

void io_node_step(io_node *self)
{
    uint8_t levels[PORTS] = {0};
    for (uint8_t pin = 0; pin < IO_NODE_PINS; pin++)
        if (self->drive[pin]) levels[at[pin].port] |= at[pin].mask;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        self->now = rtsim_cycles();
        heard();
        for (uint8_t port = 0; port < PORTS; port++) set(port, levels[port]);
        set_duties(self->drive[D9], self->drive[D10]);
    }
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE) { report(self); }
    for (uint8_t k = 0; k < EACH; k++)
        if (self->kinds[A0 + k] == IO_ADC_IN) self->analog[k] = converted(k);
}

void io_node_terminate(io_node *self)
{
    (void)self;
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        TIMSK1 &= (uint8_t)~_BV(OCIE1A);
        drive_safe();
    }
}

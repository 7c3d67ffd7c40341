#include "io_node.h"

#include <avr/interrupt.h>
#include <avr/io.h>
#include <util/atomic.h>

uint32_t rtsim_cycles(void); /* the board's; Timer 1 */

#define MS (F_CPU / 1000)
enum { PORTS = 3, EACH = 6, D3 = 1, D11 = 9, A0 = 12 };

/* What the interrupts work on; they never touch the caller's io_node. */
typedef struct {
    uint32_t rise, fall, width;
    uint16_t rises, falls;
    uint8_t port, mask, high;
} pulse;

typedef struct {
    uint8_t mask, safe; /* of a port's register: digital outputs, and their safe levels */
} outputs;

static volatile uint8_t *const pins[PORTS] = {&PIND, &PINB, &PINC}; /* then DDR, then PORT */
static const uint8_t first_bit[PORTS] = {2, 0, 0};
static outputs out[PORTS];
static uint8_t safe_duty[2]; /* D3, D11 */
static volatile pulse watched[IO_NODE_PULSES];
static volatile uint16_t silent_ms, limit_ms;
static volatile uint8_t silences;

static void set(uint8_t port, uint8_t levels)
{
    volatile uint8_t *const drive = pins[port] + 2;
    *drive = (uint8_t)((*drive & ~out[port].mask) | (levels & out[port].mask));
}

static void drive_safe(void)
{
    for (uint8_t port = 0; port < PORTS; port++) set(port, out[port].safe);
    OCR2B = safe_duty[0];
    OCR2A = safe_duty[1];
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
static void changed(uint8_t port, uint8_t levels, uint32_t at)
{
    for (uint8_t k = 0; k < IO_NODE_PULSES; k++) {
        volatile pulse *one = &watched[k];
        uint8_t high = levels & one->mask;
        if (one->port != port || high == one->high) continue;
        one->high = high;
        if (high) {
            one->rise = at;
            one->rises++;
        } else {
            one->fall = at;
            one->falls++;
            if (one->rises) one->width = at - one->rise;
        }
    }
}

ISR(PCINT2_vect) { uint32_t at = rtsim_cycles(); changed(0, PIND, at); }
ISR(PCINT0_vect) { uint32_t at = rtsim_cycles(); changed(1, PINB, at); }
ISR(PCINT1_vect) { uint32_t at = rtsim_cycles(); changed(2, PINC, at); }

static void watch(const io_node *self)
{
    uint8_t masks[PORTS] = {0, 0, 0};
    for (uint8_t k = 0; k < IO_NODE_PULSES; k++) {
        pulse none = {0};
        uint8_t pin = self->pulses[k];
        none.port = IO_NODE_NONE;
        if (pin < IO_NODE_PINS) {
            none.port = pin / EACH;
            none.mask = (uint8_t)(1 << (pin % EACH + first_bit[none.port]));
            none.high = *pins[none.port] & none.mask;
            masks[none.port] |= none.mask;
        }
        watched[k] = none;
    }
    PCMSK2 = masks[0];
    PCMSK0 = masks[1];
    PCMSK1 = masks[2];
    PCIFR = _BV(PCIF0) | _BV(PCIF1) | _BV(PCIF2);
    PCICR = _BV(PCIE0) | _BV(PCIE1) | _BV(PCIE2);
}

/* ---- pins */
static uint8_t configure_port(const io_node *self, uint8_t port)
{
    uint8_t driven = 0, pulled = 0, analog = 0;
    out[port].mask = out[port].safe = 0;
    for (uint8_t k = 0; k < EACH; k++) {
        uint8_t pin = port * EACH + k, mask = (uint8_t)(1 << (k + first_bit[port]));
        uint8_t kind = self->kinds[pin];
        if (kind == IO_DIGITAL_OUT) {
            out[port].mask |= mask;
            if (self->safe[pin]) out[port].safe |= mask;
        }
        if (kind == IO_DIGITAL_OUT || kind == IO_PWM_OUT) driven |= mask;
        if (kind == IO_PULLED_UP) pulled |= mask;
        if (kind == IO_ADC_IN) analog |= (uint8_t)(1 << k);
    }
    uint8_t ours = port == 0 ? 0xfc : 0x3f; /* not the serial line, crystal and reset */
    pins[port][1] &= (uint8_t)(driven | ~ours); /* first what drives no longer */
    pins[port][2] = (uint8_t)((pins[port][2] & ~ours) | out[port].safe | pulled);
    pins[port][1] |= driven;
    return analog;
}

static void configure_pwm(const io_node *self)
{
    safe_duty[0] = self->safe[D3];
    safe_duty[1] = self->safe[D11];
    uint8_t mode = _BV(WGM20);
    if (self->kinds[D3] == IO_PWM_OUT) mode |= _BV(COM2B1);
    if (self->kinds[D11] == IO_PWM_OUT) mode |= _BV(COM2A1);
    if (!(TCCR2A & (_BV(COM2B1) | _BV(COM2A1)))) TCCR2A = 0; /* a compare value is taken at once */
    OCR2B = safe_duty[0];
    OCR2A = safe_duty[1];
    TCCR2A = mode;
    TCCR2B = _BV(CS20);
}

void io_node_initialize(io_node *self)
{
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        configure_pwm(self); /* before a pin of its is an output */
        configure_port(self, 0);
        configure_port(self, 1);
        DIDR0 = configure_port(self, 2);
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

static uint8_t wanted(const io_node *self, uint8_t port)
{
    uint8_t levels = 0;
    for (uint8_t k = 0; k < EACH; k++)
        if (self->drive[port * EACH + k]) levels |= (uint8_t)(1 << (k + first_bit[port]));
    return levels;
}

static void report(io_node *self)
{
    self->silences = silences;
    self->levels[0] = PIND >> 2;
    self->levels[1] = PINB & 0x3f;
    self->levels[2] = PINC & 0x3f;
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
    uint8_t levels[PORTS];
    for (uint8_t port = 0; port < PORTS; port++) levels[port] = wanted(self, port);
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE)
    {
        self->now = rtsim_cycles();
        heard();
        for (uint8_t port = 0; port < PORTS; port++) set(port, levels[port]);
        OCR2B = self->drive[D3];
        OCR2A = self->drive[D11];
    }
    ATOMIC_BLOCK(ATOMIC_RESTORESTATE) { report(self); }
    for (uint8_t k = 0; k < 6; k++)
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

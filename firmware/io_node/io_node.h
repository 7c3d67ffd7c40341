/* The I/O node: drives and reads the pins of an ATmega328P at 16 MHz, as a controller of the board's
 * dispatcher.  Pins are numbered D2 to D13, then A0 to A5: 0 to 17.
 *
 * Outputs are driven with their safe values from initialize to the first step, after `watchdog` ms
 * without a step, and from terminate on.  Before initialize, and so after a reset, every pin is an
 * input: what is safe is not known then, and resistors at the pins decide.
 *
 * It takes Timer 2 (PWM at D3 and D11: 31.4 kHz, duty exactly drive / 255), the compare match A of
 * Timer 1 (which others run free, at the processor's clock), the pin changes and the ADC.
 */
#ifndef IO_NODE_H
#define IO_NODE_H

#include <stdint.h>

#define IO_NODE_PINS 18
#define IO_NODE_PULSES 4
#define IO_NODE_NONE 255

enum {
    IO_UNUSED,
    IO_DIGITAL_OUT,
    IO_PWM_OUT, /* pins 1 (D3) and 9 (D11) */
    IO_DIGITAL_IN,
    IO_PULLED_UP,
    IO_ADC_IN, /* pins 12 to 17 */
};

typedef struct {
    /* parameters */
    uint8_t kinds[IO_NODE_PINS];
    uint8_t safe[IO_NODE_PINS];
    uint8_t pulses[IO_NODE_PULSES];
    uint16_t watchdog; /* ms */
    /* inputs */
    uint8_t drive[IO_NODE_PINS];
    /* outputs */
    uint32_t now; /* cycles, as rise, fall and width; they wrap after 268 s */
    uint8_t levels[3];
    uint8_t silences;
    uint16_t analog[6];
    uint32_t rise[IO_NODE_PULSES];
    uint32_t fall[IO_NODE_PULSES];
    uint32_t width[IO_NODE_PULSES];
    uint16_t rises[IO_NODE_PULSES];
    uint16_t falls[IO_NODE_PULSES];
} io_node;

void io_node_initialize(io_node *self);
void io_node_step(io_node *self);
void io_node_terminate(io_node *self);

#endif

/* Sends back what it receives, but first looks away: after the first byte for 1 ms. */
#include <util/delay.h>

#include "serial.h"

int main(void) {
    serial_begin();
    serial_write(serial_read());
    _delay_ms(1);
    for (;;) {
        while (!(UCSR0A & _BV(RXC0))) {
        }
        uint8_t overrun = UCSR0A & _BV(DOR0);
        serial_write(UDR0);
        if (overrun) serial_write('!');
    }
}

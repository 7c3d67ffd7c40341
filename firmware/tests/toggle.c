/* Toggles D13 as fast as the processor can. */
#include <avr/io.h>

int main(void) {
    DDRB = _BV(DDB5);
    for (;;) PINB = _BV(PINB5);
}

/* The SPI of the ATmega328P (DS40002061B, chapter 19); the device is selected by D10. */
#include "spi.h"

#include <avr/io.h>

void spi_begin(void)
{
    PORTB |= _BV(PORTB2);
    DDRB |= _BV(DDB2) | _BV(DDB3) | _BV(DDB5); /* D10, MOSI and SCK */
    SPCR = _BV(SPE) | _BV(MSTR) | _BV(SPR0);   /* the clock divided by 16 */
}

void spi_transfer(uint8_t *data, uint8_t size)
{
    PORTB &= (uint8_t)~_BV(PORTB2);
    for (; size; size--, data++) {
        SPDR = *data;
        while (!(SPSR & _BV(SPIF))) {
        }
        *data = SPDR;
    }
    PORTB |= _BV(PORTB2);
}

/* The SPI of the ATmega328P (DS40002061B, chapter 19) and ATmega2560.  The device is selected by the
 * pin SS: D10 of an Uno, D53 of a Mega. */
#include "spi.h"

#include <avr/io.h>

#ifdef __AVR_ATmega2560__
#define SELECT _BV(PORTB0)
#define DRIVEN (_BV(DDB0) | _BV(DDB1) | _BV(DDB2)) /* SS, SCK and MOSI */
#else
#define SELECT _BV(PORTB2)
#define DRIVEN (_BV(DDB2) | _BV(DDB3) | _BV(DDB5))
#endif

void spi_begin(void)
{
    PORTB |= SELECT;
    DDRB |= DRIVEN;
    SPCR = _BV(SPE) | _BV(MSTR) | _BV(SPR0); /* the clock divided by 16 */
}

void spi_transfer(uint8_t *data, uint8_t size)
{
    PORTB &= (uint8_t)~SELECT;
    for (; size; size--, data++) {
        SPDR = *data;
        while (!(SPSR & _BV(SPIF))) {
        }
        *data = SPDR;
    }
    PORTB |= SELECT;
}

/* D13 follows D2; D12 toggles each 1000 cycles of Timer 1; PWM at D6 (fast) and D3 (phase-correct);
 * a byte received is a channel, answered with its ADC value, little-endian. */
#include "serial.h"

static uint16_t converted(uint8_t channel) {
    ADMUX = _BV(REFS0) | (channel & 7);
    ADCSRA = _BV(ADEN) | _BV(ADSC) | _BV(ADPS2) | _BV(ADPS1) | _BV(ADPS0);
    while (ADCSRA & _BV(ADSC)) {
    }
    return ADC;
}

int main(void) {
    serial_begin();
    DDRB = _BV(DDB5) | _BV(DDB4);
    DDRD = _BV(DDD6) | _BV(DDD3);
    TCCR0A = _BV(COM0A1) | _BV(WGM01) | _BV(WGM00);
    TCCR0B = _BV(CS01) | _BV(CS00);
    OCR0A = 63;
    TCCR2A = _BV(COM2B1) | _BV(WGM20);
    TCCR2B = _BV(CS22);
    OCR2B = 51;
    TCCR1B = _BV(WGM12) | _BV(CS10);
    OCR1A = 999;
    for (;;) {
        if (PIND & _BV(PIND2))
            PORTB |= _BV(PORTB5);
        else
            PORTB &= (uint8_t)~_BV(PORTB5);
        if (TIFR1 & _BV(OCF1A)) {
            TIFR1 = _BV(OCF1A);
            PINB = _BV(PINB4);
        }
        if (UCSR0A & _BV(RXC0)) {
            uint16_t value = converted(UDR0);
            serial_write((uint8_t)value);
            serial_write((uint8_t)(value >> 8));
        }
    }
}

/* A lamp's switch: on when it gets dark, off when it is light again.
 *
 * A0 is the illumination sensor, 0 to 5 V.  Each ms the voltage is converted; below DARK of 1024 D8
 * is raised, above LIGHT it is dropped, and between them it stays: the sensor may see the lamp.
 */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>

#define DARK 300  /* 1.465 V */
#define LIGHT 400 /* 1.953 V */

ISR(TIMER1_COMPA_vect) { ADCSRA |= _BV(ADSC); }

ISR(ADC_vect) {
    uint16_t level = ADC;
    if (level < DARK)
        PORTB |= _BV(PORTB0);
    else if (level > LIGHT)
        PORTB &= (uint8_t)~_BV(PORTB0);
}

int main(void) {
    DDRB = _BV(DDB0);
    DIDR0 = _BV(ADC0D);
    ADMUX = _BV(REFS0);
    ADCSRA = _BV(ADEN) | _BV(ADIE) | _BV(ADPS2) | _BV(ADPS1) | _BV(ADPS0);
    TCCR1B = _BV(WGM12) | _BV(CS10);
    OCR1A = F_CPU / 1000 - 1;
    TIMSK1 = _BV(OCIE1A);
    set_sleep_mode(SLEEP_MODE_IDLE);
    sei();
    for (;;) sleep_mode();
}

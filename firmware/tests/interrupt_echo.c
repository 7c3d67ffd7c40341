/* Sends back what it receives, by interrupts and rings, asleep in between; Timer 2 interrupts too. */
#include <avr/interrupt.h>
#include <avr/sleep.h>

#include "serial.h"

#define SIZE 64
static volatile uint8_t ring[SIZE], head, tail;
static volatile uint16_t ticks;

ISR(USART_RX_vect) {
    ring[head] = UDR0;
    head = (head + 1) % SIZE;
    UCSR0B |= _BV(UDRIE0);
}

ISR(USART_UDRE_vect) {
    if (head == tail) {
        UCSR0B &= (uint8_t)~_BV(UDRIE0);
    } else {
        UDR0 = ring[tail];
        tail = (tail + 1) % SIZE;
    }
}

ISR(TIMER2_OVF_vect) {
    ticks++;
    PINB = _BV(PINB5);
}

int main(void) {
    serial_begin();
    DDRB = _BV(DDB5);
    UCSR0B |= _BV(RXCIE0);
    TCCR2B = _BV(CS21);
    TIMSK2 = _BV(TOIE2);
    set_sleep_mode(SLEEP_MODE_IDLE);
    sei();
    for (;;) {
#ifdef BUSY
        PINB = _BV(PINB4);
#else
        sleep_mode();
#endif
    }
}

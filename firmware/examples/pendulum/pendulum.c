/* An inverted pendulum's controller with an MPU-6050 at its pivot, on an Arduino Uno.
 *
 * Every 5 ms it reads the rate and the tilt, and sets the motor by PWM at D3: duty 0 to 1 is an
 * acceleration of -20 to 20 rad/s2.  If the sensor cannot be read, the motor gets duty 1/2, D8 is high,
 * and the next tick tries again. */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>

#include "../../bus/i2c.h"
#include "balance.h"

static volatile uint8_t due;

ISR(TIMER1_COMPA_vect)
{
    due = 1;
}

static void begin(void)
{
    DDRD = _BV(DDD3);
    DDRB = _BV(DDB0);
    OCR2B = NEUTRAL;
    TCCR2A = _BV(WGM20) | _BV(COM2B1); /* duty OCR2B / 255 */
    TCCR2B = _BV(CS20);
    TCCR1B = _BV(WGM12) | _BV(CS11);
    OCR1A = (uint16_t)(F_CPU / 8 * PERIOD) - 1;
    TIMSK1 = _BV(OCIE1A);
    i2c_begin();
    set_sleep_mode(SLEEP_MODE_IDLE);
    sei();
}

int main(void)
{
    balance state = {0.0f, 0};
    uint8_t ready = 0;
    begin();
    for (;;) {
        mpu6050_sample now;
        while (!due) sleep_mode();
        due = 0;
        uint8_t wrong = ready ? mpu6050_read(&now) : mpu6050_begin();
        if (wrong || !ready) {
            ready = !wrong;
            OCR2B = NEUTRAL;
            if (wrong) PORTB |= _BV(PORTB0);
            continue;
        }
        PORTB &= (uint8_t)~_BV(PORTB0);
        OCR2B = balance_step(&state, &now);
    }
}

/* An inverted pendulum's controller with an MPU-6050 at its pivot, on an Arduino Uno.
 *
 * Every 5 ms it reads the rate and the tilt, and sets the motor by PWM at D3: duty 0 to 1 is an
 * acceleration of -20 to 20 rad/s2.  If the sensor cannot be read, the motor gets duty 1/2, D8 is high,
 * and the next tick tries again. */
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>

#include "../../bus/i2c.h"
#include "../../bus/mpu6050.h"

#define PERIOD 0.005f     /* s */
#define MOST 20.0f        /* rad/s2 */
#define STIFFNESS 60.0f   /* 1/s2 */
#define DAMPING 12.0f     /* 1/s */
#define TRUST 0.02f       /* of the accelerometer, in each step */
#define RAD_PER_DEG 0.017453293f
#define NEUTRAL 128

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

static uint8_t duty(float acceleration)
{
    float value = 127.5f * (1.0f + acceleration / MOST);
    return value <= 0.0f ? 0 : value >= 255.0f ? 255 : (uint8_t)(value + 0.5f);
}

int main(void)
{
    float angle = 0.0f;
    uint8_t ready = 0, first = 1;
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
        float rate = now.gyro[1] * MPU6050_DEG_S_PER_LSB * RAD_PER_DEG;
        float tilt = now.accel[0] * MPU6050_G_PER_LSB; /* the sine of the angle */
        angle = first ? tilt : (1.0f - TRUST) * (angle + rate * PERIOD) + TRUST * tilt;
        first = 0;
        OCR2B = duty(-STIFFNESS * angle - DAMPING * rate);
    }
}

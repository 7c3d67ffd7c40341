/* The control law of the pendulum: the angle from the rate and the tilt, and a duty of the motor. */
#ifndef BALANCE_H
#define BALANCE_H

#include "../../bus/mpu6050.h"

#define PERIOD 0.005f   /* s */
#define MOST 20.0f      /* rad/s2, at a duty of 1; -20 rad/s2 at a duty of 0 */
#define STIFFNESS 60.0f /* 1/s2 */
#define DAMPING 12.0f   /* 1/s */
#define TRUST 0.02f     /* of the accelerometer, in each step */
#define RAD_PER_DEG 0.017453293f
#define NEUTRAL 128 /* of 255 */

typedef struct {
    float angle; /* rad */
    uint8_t begun;
} balance;

static inline uint8_t balance_step(balance *self, const mpu6050_sample *now)
{
    float rate = now->gyro[1] * MPU6050_DEG_S_PER_LSB * RAD_PER_DEG;
    float tilt = now->accel[0] * MPU6050_G_PER_LSB; /* the sine of the angle */
    float before = self->begun ? self->angle + rate * PERIOD : tilt;
    self->begun = 1;
    self->angle = (1.0f - TRUST) * before + TRUST * tilt;
    float value = 127.5f * (1.0f - (STIFFNESS * self->angle + DAMPING * rate) / MOST);
    return value <= 0.0f ? 0 : value >= 255.0f ? 255 : (uint8_t)(value + 0.5f);
}

#endif

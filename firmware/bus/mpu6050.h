/* A driver of the MPU-6050 (RM-MPU-6000A-00, revision 4.2). */
#ifndef RTSIM_MPU6050_H
#define RTSIM_MPU6050_H

#include <stdint.h>

#define MPU6050_ADDRESS 0x68
#define MPU6050_DEG_S_PER_LSB (1.0f / 65.5f) /* with the range that mpu6050_begin sets: 500 deg/s */
#define MPU6050_G_PER_LSB (1.0f / 8192.0f)   /* 4 g */

enum { MPU6050_OTHER = 100 }; /* a device answers, but it is no MPU-6050 */

typedef struct {
    int16_t accel[3], temperature, gyro[3];
} mpu6050_sample;

/* Wakes the sensor and sets its ranges and a sample rate of 1 kHz; returns a reason of i2c.h. */
uint8_t mpu6050_begin(void);

/* Reads the latest sample; returns a reason of i2c.h, and leaves `sample` if it is not I2C_OK. */
uint8_t mpu6050_read(mpu6050_sample *sample);

#endif

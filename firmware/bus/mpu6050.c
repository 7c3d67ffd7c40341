#include "mpu6050.h"

#include "i2c.h"

enum { SMPLRT_DIV = 0x19, PWR_MGMT_1 = 0x6b, ACCEL_XOUT_H = 0x3b, WHO_AM_I = 0x75, IDENTITY = 0x68 };

static uint8_t set(uint8_t reg, uint8_t value)
{
    uint8_t out[2] = {reg, value};
    return i2c_transfer(MPU6050_ADDRESS, out, 2, 0, 0);
}

uint8_t mpu6050_begin(void)
{
    /* from SMPLRT_DIV on: every sample, low pass 1 (1 kHz), 500 deg/s, 4 g */
    static const uint8_t ranges[5] = {SMPLRT_DIV, 0, 1, 1 << 3, 1 << 3};
    uint8_t reg = WHO_AM_I, found;
    uint8_t result = i2c_transfer(MPU6050_ADDRESS, &reg, 1, &found, 1);
    if (result) return result;
    if (found != IDENTITY) return MPU6050_OTHER;
    result = set(PWR_MGMT_1, 1); /* awake; the clock of the gyroscope's x axis */
    if (result) return result;
    return i2c_transfer(MPU6050_ADDRESS, ranges, sizeof ranges, 0, 0);
}

uint8_t mpu6050_read(mpu6050_sample *sample)
{
    uint8_t reg = ACCEL_XOUT_H, raw[14];
    int16_t word[7];
    uint8_t result = i2c_transfer(MPU6050_ADDRESS, &reg, 1, raw, sizeof raw);
    if (result) return result;
    for (uint8_t k = 0; k < 7; k++) word[k] = (int16_t)((uint16_t)raw[2 * k] << 8 | raw[2 * k + 1]);
    for (uint8_t k = 0; k < 3; k++) {
        sample->accel[k] = word[k];
        sample->gyro[k] = word[k + 4];
    }
    sample->temperature = word[3];
    return I2C_OK;
}

/* An I2C bus with one controller, this board: transfers with a limit on their time.
 *
 * No call waits forever: if a line is held or a device does not answer, it returns with a reason, and
 * the bus is free for the next call as far as the board can make it so. */
#ifndef RTSIM_I2C_H
#define RTSIM_I2C_H

#include <stdint.h>

enum {
    I2C_OK,
    I2C_NO_DEVICE, /* no acknowledgement of the address */
    I2C_REFUSED,   /* no acknowledgement of a byte */
    I2C_TIMEOUT,   /* an operation did not end: a line is held low */
    I2C_LOST,      /* a line was low where this board sent a 1 */
};

void i2c_begin(void); /* 400 kHz */

/* Writes `sent` bytes to the device at `address` (7 bits), then reads `wanted` bytes from it, with a
 * repeated START in between.  Either number may be 0, not both. */
uint8_t i2c_transfer(uint8_t address, const uint8_t *out, uint8_t sent, uint8_t *in, uint8_t wanted);

#endif

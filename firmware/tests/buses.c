/* Does on its buses what the serial line asks for, with the drivers of firmware/bus:
 *
 *   'I' address n m, n bytes    I2C: writes n bytes, reads m   -> reason, m bytes
 *   'M'                         the MPU-6050: begins           -> reason
 *   'R'                         the MPU-6050: reads            -> reason, 7 words, low byte first
 *   'A' channel                 the MCP3008                    -> a word, low byte first
 */
#include "../bus/i2c.h"
#include "../bus/mcp3008.h"
#include "../bus/mpu6050.h"
#include "../bus/spi.h"

#ifdef __AVR__
#include "serial.h"
#define MAIN int main(void)
#else
#include "pico/pico.h"
#define MAIN void rtsim_pico_reset(void)
#endif

static void write_words(const int16_t *words, uint8_t count)
{
    for (; count; count--, words++) {
        serial_write((uint8_t)*words);
        serial_write((uint8_t)((uint16_t)*words >> 8));
    }
}

static void transfer(void)
{
    uint8_t out[16], in[16], address = serial_read(), n = serial_read(), m = serial_read();
    for (uint8_t k = 0; k < n; k++) {
        uint8_t byte = serial_read();
        if (k < sizeof out) out[k] = byte;
    }
    if (n > sizeof out || m > sizeof in) return;
    for (uint8_t k = 0; k < m; k++) in[k] = 0;
    serial_write(i2c_transfer(address, out, n, in, m));
    for (uint8_t k = 0; k < m; k++) serial_write(in[k]);
}

MAIN
{
    serial_begin();
    i2c_begin();
    spi_begin();
    for (;;) {
        mpu6050_sample sample = {{0, 0, 0}, 0, {0, 0, 0}};
        int16_t code;
        switch (serial_read()) {
        case 'I': transfer(); break;
        case 'M': serial_write(mpu6050_begin()); break;
        case 'R':
            serial_write(mpu6050_read(&sample));
            write_words(sample.accel, 3);
            write_words(&sample.temperature, 1);
            write_words(sample.gyro, 3);
            break;
        case 'A':
            code = (int16_t)mcp3008_read(serial_read());
            write_words(&code, 1);
            break;
        default: break;
        }
    }
}

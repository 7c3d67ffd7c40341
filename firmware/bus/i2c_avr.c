/* The two-wire interface of the ATmega328P and ATmega2560 (DS40002061B, chapter 22). */
#include "i2c.h"

#include <avr/io.h>
#include <util/delay.h>

#define HZ 400000UL
#define PATIENCE 4000 /* turns of the waiting loop: about 2 ms, longer than any byte */

#ifdef __AVR_ATmega2560__
#define LINES_DDR DDRD
#define SDA_BIT _BV(DDD1)
#define SCL_BIT _BV(DDD0)
#else
#define LINES_DDR DDRC
#define SDA_BIT _BV(DDC4)
#define SCL_BIT _BV(DDC5)
#endif

enum { STARTED = 0x08, AGAIN = 0x10, WRITES = 0x18, WROTE = 0x28, LOST = 0x38, READS = 0x40 };
enum { NOT_THERE = 0x20, REFUSED = 0x30, NOT_THERE_TO_READ = 0x48 };

void i2c_begin(void)
{
    TWSR = 0;
    TWBR = (uint8_t)((F_CPU / HZ - 16) / 2);
    TWCR = _BV(TWEN);
}

/* Starts the next operation and waits for its end; returns the status, or 0 if it did not end. */
static uint8_t operate(uint8_t bits)
{
    TWCR = (uint8_t)(_BV(TWINT) | _BV(TWEN) | bits);
    for (uint16_t left = PATIENCE; left; left--)
        if (TWCR & _BV(TWINT)) return TWSR & 0xf8;
    return 0;
}

/* Gives a device that holds SDA in the middle of a byte the clocks to finish, then sends a STOP. */
static void recover(void)
{
    TWCR = 0; /* the lines are ordinary pins now: low while their DDR bit is set */
    for (uint8_t clock = 0; clock < 9; clock++) {
        LINES_DDR |= SCL_BIT;
        _delay_us(2);
        LINES_DDR &= (uint8_t)~SCL_BIT;
        _delay_us(2);
    }
    LINES_DDR |= SDA_BIT;
    _delay_us(2);
    LINES_DDR &= (uint8_t)~SDA_BIT;
    TWCR = _BV(TWEN);
}

static uint8_t failed(uint8_t status)
{
    switch (status) {
    case NOT_THERE:
    case NOT_THERE_TO_READ: return I2C_NO_DEVICE;
    case REFUSED: return I2C_REFUSED;
    case LOST: return I2C_LOST;
    default: return I2C_TIMEOUT;
    }
}

static uint8_t address_it(uint8_t byte)
{
    uint8_t status = operate(_BV(TWSTA));
    if (status != STARTED && status != AGAIN) return status;
    TWDR = byte;
    return operate(0);
}

static uint8_t write_all(uint8_t address, const uint8_t *out, uint8_t sent)
{
    uint8_t status = address_it((uint8_t)(address << 1));
    if (status != WRITES) return failed(status);
    while (sent--) {
        TWDR = *out++;
        status = operate(0);
        if (status != WROTE) return failed(status);
    }
    return I2C_OK;
}

static uint8_t read_all(uint8_t address, uint8_t *in, uint8_t wanted)
{
    uint8_t status = address_it((uint8_t)(address << 1 | 1));
    if (status != READS) return failed(status);
    while (wanted--) {
        status = operate(wanted ? _BV(TWEA) : 0);
        if (status != 0x50 && status != 0x58) return failed(status);
        *in++ = TWDR;
    }
    return I2C_OK;
}

uint8_t i2c_transfer(uint8_t address, const uint8_t *out, uint8_t sent, uint8_t *in, uint8_t wanted)
{
    uint8_t result = I2C_OK;
    if (sent) result = write_all(address, out, sent);
    if (wanted && result == I2C_OK) result = read_all(address, in, wanted);
    if (result == I2C_TIMEOUT || result == I2C_LOST) {
        recover();
        return result;
    }
    TWCR = _BV(TWINT) | _BV(TWEN) | _BV(TWSTO);
    for (uint16_t left = PATIENCE; TWCR & _BV(TWSTO); left--) {
        if (!left) {
            recover();
            return I2C_TIMEOUT;
        }
    }
    return result;
}

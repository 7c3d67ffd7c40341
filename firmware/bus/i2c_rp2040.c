/* I2C0 of the RP2040 at GP4 (SDA) and GP5 (SCL), by its data sheet, section 4.3. */
#include "i2c.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define RESETS_SET REGISTER(0x4000C000u + 0x2000u)
#define RESETS_CLEAR REGISTER(0x4000C000u + 0x3000u)
#define RESETS_DONE REGISTER(0x4000C000u + 0x08u)
#define PARTS (1u << 5 | 1u << 8) /* IO_BANK0 and PADS_BANK0 */
#define RESET_I2C0 (1u << 3)
#define GPIO_FUNCTION(pin) REGISTER(0x40014000u + 8u * (pin) + 4u)
#define PAD(pin) REGISTER(0x4001C004u + 4u * (pin))
#define I2C(offset) REGISTER(0x40044000u + (offset))
#define CON I2C(0x00u)
#define TAR I2C(0x04u)
#define DATA_CMD I2C(0x10u)
#define FS_SCL_HCNT I2C(0x1Cu)
#define FS_SCL_LCNT I2C(0x20u)
#define RAW_INTR_STAT I2C(0x34u)
#define CLR_TX_ABRT I2C(0x54u)
#define CLR_STOP_DET I2C(0x60u)
#define ENABLE I2C(0x6Cu)
#define RXFLR I2C(0x78u)
#define TX_ABRT_SOURCE I2C(0x80u)
#define FS_SPKLEN I2C(0xA0u)

#define TX_ABRT (1u << 6)
#define STOP_DET (1u << 9)
#define NO_ADDRESS (1u << 0)
#define NO_DATA (1u << 3)
#define READ (1u << 8)
#define STOP (1u << 9)
#define RESTART (1u << 10)
#define FIFO 16u
#define PATIENCE 20000u /* turns of the waiting loop: a few ms, longer than any byte */

void i2c_begin(void)
{
    RESETS_SET = RESET_I2C0;
    RESETS_CLEAR = PARTS | RESET_I2C0;
    while ((RESETS_DONE & (PARTS | RESET_I2C0)) != (PARTS | RESET_I2C0)) {
    }
    PAD(4) = PAD(5) = 1u << 6 | 1u << 3 | 1u << 1; /* input, pull-up, Schmitt trigger */
    GPIO_FUNCTION(4) = GPIO_FUNCTION(5) = 3;
    ENABLE = 0;
    CON = 1u << 6 | 1u << 5 | 2u << 1 | 1u; /* controller, 400 kHz, repeated START */
    FS_SCL_LCNT = 187; /* 1.5 us low, with the constants of section 4.3.14 */
    FS_SCL_HCNT = 106; /* and 1 us high: 312 cycles of 8 ns */
    FS_SPKLEN = 11;
    ENABLE = 1;
}

static uint8_t why(void)
{
    uint32_t source = TX_ABRT_SOURCE;
    (void)CLR_TX_ABRT;
    if (source & NO_ADDRESS) return I2C_NO_DEVICE;
    if (source & NO_DATA) return I2C_REFUSED;
    return I2C_LOST;
}

/* Waits until `flag` is set, until `level` bytes have arrived, or until the transfer has failed. */
static uint8_t wait(uint32_t flag, uint32_t level)
{
    for (uint32_t left = PATIENCE; left; left--) {
        uint32_t raw = RAW_INTR_STAT;
        if (raw & TX_ABRT) return I2C_LOST;
        if (raw & flag || (level && RXFLR >= level)) return I2C_OK;
    }
    return I2C_TIMEOUT;
}

static uint8_t ended(uint8_t result)
{
    if (result == I2C_OK) result = wait(STOP_DET, 0);
    if (result == I2C_LOST) {
        result = why();
        if (result != I2C_LOST && wait(STOP_DET, 0) != I2C_OK) result = I2C_TIMEOUT;
    }
    (void)CLR_STOP_DET;
    if (result == I2C_TIMEOUT) i2c_begin();
    return result;
}

/* At most 16 bytes each way: the depth of the FIFOs. */
uint8_t i2c_transfer(uint8_t address, const uint8_t *out, uint8_t sent, uint8_t *in, uint8_t wanted)
{
    uint8_t result = I2C_OK;
    if (sent > FIFO || wanted > FIFO) return I2C_REFUSED;
    ENABLE = 0;
    TAR = address;
    ENABLE = 1;
    (void)CLR_TX_ABRT;
    (void)CLR_STOP_DET;
    for (uint8_t k = 0; k < sent; k++)
        DATA_CMD = out[k] | (k + 1 == sent && !wanted ? STOP : 0);
    for (uint8_t k = 0; k < wanted && result == I2C_OK; k++) {
        DATA_CMD = READ | (k == 0 && sent ? RESTART : 0) | (k + 1 == wanted ? STOP : 0);
        result = wait(0, 1);
        if (result == I2C_OK) in[k] = (uint8_t)DATA_CMD;
    }
    return ended(result);
}

/* SPI0 of the RP2040 at GP16, GP18 and GP19 (data sheet, section 4.4); GP17 selects the device. */
#include "spi.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define RESETS_CLEAR REGISTER(0x4000C000u + 0x3000u)
#define RESETS_DONE REGISTER(0x4000C000u + 0x08u)
#define PARTS (1u << 5 | 1u << 8 | 1u << 16) /* IO_BANK0, PADS_BANK0 and SPI0 */
#define GPIO_FUNCTION(pin) REGISTER(0x40014000u + 8u * (pin) + 4u)
#define SIO(offset) REGISTER(0xD0000000u + (offset))
#define OUT_SET SIO(0x14u)
#define OUT_CLEAR SIO(0x18u)
#define OE_SET SIO(0x24u)
#define SSP(offset) REGISTER(0x4003C000u + (offset))
#define SELECT (1u << 17)
#define RECEIVED (1u << 2)

void spi_begin(void)
{
    RESETS_CLEAR = PARTS;
    while ((RESETS_DONE & PARTS) != PARTS) {
    }
    OUT_SET = SELECT;
    OE_SET = SELECT;
    GPIO_FUNCTION(17) = 5;
    GPIO_FUNCTION(16) = GPIO_FUNCTION(18) = GPIO_FUNCTION(19) = 1;
    SSP(0x10u) = 2;             /* prescaler */
    SSP(0x00u) = 61u << 8 | 7u; /* 125 MHz / 2 / 62 = 1.008 MHz; 8 bits, mode 0 */
    SSP(0x04u) = 2;             /* on */
}

void spi_transfer(uint8_t *data, uint8_t size)
{
    OUT_CLEAR = SELECT;
    for (; size; size--, data++) {
        SSP(0x08u) = *data;
        while (!(SSP(0x0Cu) & RECEIVED)) {
        }
        *data = (uint8_t)SSP(0x08u);
    }
    OUT_SET = SELECT;
}

/* The serial line of the test programs on a Pico (polled, 500000 bit/s), and its first instructions. */
#ifndef TEST_PICO_H
#define TEST_PICO_H

#include <stdint.h>

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define UART(offset) REGISTER(0x40034000u + (offset))

extern uint32_t rtsim_stack_top;
void rtsim_pico_reset(void);

__attribute__((section(".vectors"), used)) static void *const vectors[2] = {
    &rtsim_stack_top, (void *)rtsim_pico_reset,
};

static inline void serial_begin(void)
{
    REGISTER(0x4000C000u + 0x3000u) = 1u << 5 | 1u << 8 | 1u << 22;
    REGISTER(0x40014004u) = REGISTER(0x4001400Cu) = 2; /* GP0 and GP1 */
    UART(0x24u) = 15; /* 125 MHz / 16 / 15.625 */
    UART(0x28u) = 40;
    UART(0x2Cu) = 3u << 5 | 1u << 4; /* 8 bits, FIFOs */
    UART(0x30u) = 1u << 9 | 1u << 8 | 1u;
}

static inline uint8_t serial_read(void)
{
    while (UART(0x18u) & 1u << 4) {
    }
    return (uint8_t)UART(0x00u);
}

static inline void serial_write(uint8_t value)
{
    while (UART(0x18u) & 1u << 5) {
    }
    UART(0x00u) = value;
}

#endif

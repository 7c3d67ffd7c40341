/* The same controller on a Raspberry Pi Pico: the sensor at GP4 and GP5, PWM at GP2, failures at GP15.
 * Registers: RP2040 data sheet, sections 2.3.1 (SIO), 4.5 (PWM) and 2.4.5.1 (SysTick). */
#include "../../bus/i2c.h"
#include "balance.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define RESETS_CLEAR REGISTER(0x4000C000u + 0x3000u)
#define RESETS_DONE REGISTER(0x4000C000u + 0x08u)
#define PARTS (1u << 5 | 1u << 8 | 1u << 14) /* IO_BANK0, PADS_BANK0 and PWM */
#define GPIO_FUNCTION(pin) REGISTER(0x40014000u + 8u * (pin) + 4u)
#define SIO(offset) REGISTER(0xD0000000u + (offset))
#define PWM(offset) REGISTER(0x40050000u + 0x14u + (offset)) /* slice 1 */
#define DUTY PWM(0x0Cu)
#define FAILING (1u << 15)
#define CLOCK_HZ 125000000u

extern uint32_t rtsim_stack_top;
void rtsim_pico_reset(void);
static volatile uint8_t due;

static void systick(void)
{
    due = 1;
}

static void begin(void)
{
    RESETS_CLEAR = PARTS;
    while ((RESETS_DONE & PARTS) != PARTS) {
    }
    DUTY = NEUTRAL;
    PWM(0x10u) = 254; /* TOP: duty DUTY / 255 */
    PWM(0x00u) = 1;
    GPIO_FUNCTION(2) = 4;
    SIO(0x18u) = FAILING; /* low */
    SIO(0x24u) = FAILING; /* an output */
    GPIO_FUNCTION(15) = 5;
    REGISTER(0xE000E014u) = (uint32_t)(CLOCK_HZ * PERIOD) - 1u;
    REGISTER(0xE000E018u) = 0;
    REGISTER(0xE000E010u) = 7;
    i2c_begin();
}

void rtsim_pico_reset(void)
{
    balance state = {0.0f, 0};
    uint8_t ready = 0;
    due = 0;
    begin();
    for (;;) {
        mpu6050_sample now;
        while (!due) __asm__ volatile("wfi" ::: "memory");
        due = 0;
        uint8_t wrong = ready ? mpu6050_read(&now) : mpu6050_begin();
        if (wrong || !ready) {
            ready = !wrong;
            DUTY = NEUTRAL;
            if (wrong) SIO(0x14u) = FAILING;
            continue;
        }
        SIO(0x18u) = FAILING;
        DUTY = balance_step(&state, &now);
    }
}

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {
    &rtsim_stack_top, (void *)rtsim_pico_reset, [15] = (void *)systick,
};

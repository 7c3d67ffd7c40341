/* A controller on a Raspberry Pi Pico (RP2040), without an SDK: start-up, UART0, clock and stack.
 * Registers: RP2040 data sheet, sections 2.4, 2.14, 4.2, 4.6 and 4.7.
 *
 * It expects the clocks as they are on an emulated Pico: system and peripherals with 125 MHz.  It has
 * no second boot stage and sets no PLL, so it does not start from the flash of a real Pico. */
#include "board.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define RESETS_CLEAR REGISTER(0x4000C000u + 0x3000u)
#define RESETS_DONE REGISTER(0x4000C000u + 0x08u)
#define RESET_IO_BANK0 (1u << 5)
#define RESET_PADS_BANK0 (1u << 8)
#define RESET_UART0 (1u << 22)
#define GPIO_FUNCTION(pin) REGISTER(0x40014000u + 8u * (pin) + 4u)
#define UART 0x40034000u
#define UART_DR REGISTER(UART + 0x00u)
#define UART_FR REGISTER(UART + 0x18u)
#define UART_IBRD REGISTER(UART + 0x24u)
#define UART_FBRD REGISTER(UART + 0x28u)
#define UART_LCR_H REGISTER(UART + 0x2Cu)
#define UART_CR REGISTER(UART + 0x30u)
#define UART_IMSC REGISTER(UART + 0x38u)
#define UART_ICR REGISTER(UART + 0x44u)
#define RX_EMPTY (1u << 4)
#define TX_FULL (1u << 5)
#define RX_INTERRUPT (1u << 4)
#define TX_INTERRUPT (1u << 5)
#define TIMER_RAW_LOW REGISTER(0x40054028u)
#define WATCHDOG_REASON REGISTER(0x40058008u)
#define SYST_CSR REGISTER(0xE000E010u)
#define SYST_RVR REGISTER(0xE000E014u)
#define SYST_CVR REGISTER(0xE000E018u)
#define NVIC_ISER REGISTER(0xE000E100u)
#define ICSR REGISTER(0xE000ED04u)
#define PENDSTSET (1u << 26)
#define UART0_IRQ 20

#define CLOCK_HZ 125000000u
#define COUNTS 0x1000000u /* of SysTick */
#define RING 256u         /* received bytes that wait; the index has 8 bits */
#define PAINT 0xC5C5C5C5u
#define CLEAN 256u        /* painted words in a row below which the stack is taken as unused */
#define MOST_STACK 65532u /* rtsim_stack_bytes has 16 bits */

#ifndef RTSIM_BAUD
#define RTSIM_BAUD 2000000
#endif

extern uint32_t rtsim_stack_top, rtsim_data_begin, rtsim_data_end, rtsim_data_load;
typedef void (*constructor)(void); /* of a static object in C++ */
extern constructor rtsim_constructors_begin, rtsim_constructors_end;
extern uint32_t rtsim_bss_begin, rtsim_bss_end, rtsim_static_end;

const uint32_t rtsim_clock_hz = CLOCK_HZ;

static uint32_t nonce __attribute__((section(".noinit")));
static uint32_t *bottom, *mark; /* the lowest words of the stack, and of its part that was used */
static volatile uint32_t rounds; /* of SysTick */
static volatile uint8_t ring[RING], first, last;
static const uint8_t *volatile sending;
static volatile uint16_t unsent;

static void off(void)
{
    __asm__ volatile("cpsid i" ::: "memory");
}

static void on(void)
{
    __asm__ volatile("cpsie i" ::: "memory");
}

void *memcpy(void *to, const void *from, __SIZE_TYPE__ size)
{
    uint8_t *into = to;
    const uint8_t *out = from;
    if ((((uintptr_t)to | (uintptr_t)from) & 3u) == 0) {
        while (size >= 4) {
            *(uint32_t *)(void *)into = *(const uint32_t *)(const void *)out;
            into += 4, out += 4, size -= 4;
        }
    }
    while (size--) {
        *into++ = *out++;
    }
    return to;
}

static void systick(void)
{
    rounds++;
}

static void uart(void)
{
    while (!(UART_FR & RX_EMPTY)) {
        uint8_t next = (uint8_t)(last + 1u), byte = (uint8_t)UART_DR;
        if (next != first) {
            ring[last] = byte;
            last = next;
        }
    }
    while (unsent && !(UART_FR & TX_FULL)) {
        UART_DR = *sending++;
        unsent--;
    }
    if (!unsent) {
        UART_ICR = TX_INTERRUPT;
    }
}

uint32_t rtsim_cycles(void)
{
    uint32_t high, count;
    off();
    count = SYST_CVR;
    high = rounds;
    if ((ICSR & PENDSTSET) && count > COUNTS / 2) {
        high++; /* it has just begun a new round */
    }
    on();
    return high * COUNTS + (COUNTS - 1u - count);
}

uint32_t rtsim_micros(void)
{
    return TIMER_RAW_LOW;
}

uint16_t rtsim_stack_used(void)
{
    uint32_t *at = mark;
    uint32_t clean = 0;
    while (at > bottom && clean < CLEAN) {
        at--;
        clean++;
        if (*at != PAINT) {
            clean = 0;
            mark = at;
        }
    }
    return (uint16_t)((uint8_t *)&rtsim_stack_top - (uint8_t *)mark);
}

uint16_t rtsim_stack_bytes(void)
{
    return (uint16_t)((uint8_t *)&rtsim_stack_top - (uint8_t *)bottom);
}

/* `frame` stays as it is until the next byte is fed, and none is fed before all is sent. */
static void send(const uint8_t *frame, uint16_t size)
{
    off();
    sending = frame;
    unsent = size;
    while (unsent && !(UART_FR & TX_FULL)) {
        UART_DR = *sending++;
        unsent--;
    }
    on();
}

/* Sleeps until an interrupt.  With interrupts off, none can come between the question and the sleep,
 * and a pending one ends the sleep all the same. */
static void doze(void)
{
    off();
    if (unsent || first == last) {
        __asm__ volatile("wfi" ::: "memory");
    }
    on();
}

static void begin(void)
{
    const uint32_t parts = RESET_IO_BANK0 | RESET_PADS_BANK0 | RESET_UART0;
    const uint32_t divider = (CLOCK_HZ * 8u / RTSIM_BAUD + 1u) / 2u; /* in 64ths, of 16 samples */

    RESETS_CLEAR = parts;
    while ((RESETS_DONE & parts) != parts) {
    }
    GPIO_FUNCTION(0) = 2; /* UART0 TX */
    GPIO_FUNCTION(1) = 2; /* UART0 RX */
    SYST_RVR = COUNTS - 1u;
    SYST_CVR = 0;
    SYST_CSR = 7;
    UART_IBRD = divider / 64u;
    UART_FBRD = divider % 64u;
    UART_LCR_H = 3u << 5; /* 8 bits, no FIFO: an interrupt for each byte */
    UART_IMSC = RX_INTERRUPT | TX_INTERRUPT;
    UART_CR = 1u << 9 | 1u << 8 | 1u;
    NVIC_ISER = 1u << UART0_IRQ;
}

static void serve(void)
{
    uint16_t size;
    const uint8_t *frame;

    begin();
    nonce = nonce * 1664525u + 1013904223u; /* another one after each reset */
    frame = rtsim_board_begin(nonce, WATCHDOG_REASON ? 8 : 0, &size);
    send(frame, size);
    for (;;) {
        if (!unsent && first != last) {
            uint8_t byte = ring[first];
            first = (uint8_t)(first + 1u);
            frame = rtsim_board_feed(byte, &size);
            if (frame) {
                send(frame, size);
            }
        } else {
            rtsim_idle();
            doze();
        }
    }
}

void rtsim_pico_reset(void)
{
    uint32_t *from = &rtsim_data_load, *top;

    for (uint32_t *to = &rtsim_data_begin; to < &rtsim_data_end;) {
        *to++ = *from++;
    }
    for (uint32_t *to = &rtsim_bss_begin; to < &rtsim_bss_end;) {
        *to++ = 0;
    }
    bottom = &rtsim_static_end;
    if ((uintptr_t)&rtsim_stack_top - (uintptr_t)bottom > MOST_STACK) {
        bottom = (uint32_t *)((uintptr_t)&rtsim_stack_top - MOST_STACK);
    }
    __asm__ volatile("mov %0, sp" : "=r"(top));
    mark = top;
    while (top > bottom) {
        *--top = PAINT;
    }
    for (constructor *of = &rtsim_constructors_begin; of < &rtsim_constructors_end; of++) {
        (*of)();
    }
    serve();
}

static void fault(void)
{
    __asm__ volatile("bkpt 0");
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static void *const vectors[16 + UART0_IRQ + 1] = {
    &rtsim_stack_top, (void *)rtsim_pico_reset, (void *)fault, (void *)fault,
    [11] = (void *)fault, [14] = (void *)fault, [15] = (void *)systick,
    [16 + UART0_IRQ] = (void *)uart,
};

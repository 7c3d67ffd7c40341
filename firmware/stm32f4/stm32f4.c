/* A controller on an STM32F405, without an SDK: USART1 at PA9 and PA10, clocks, cycle counter.
 * Registers: RM0090, sections 7.3, 8.4, 18.4 and 30.6; ARM DDI 0403, sections B3 and C1.
 *
 * It expects the clocks as they are on the emulated board: 168 MHz, and 84 MHz for USART1 and TIM2.
 * It sets no PLL, so a real STM32F405 would run it with 16 MHz and a wrong bit rate.
 *
 * All interrupts are disabled.  A pending interrupt of USART1 only ends WFI. */
#include "board.h"
#include "start.h"

#define RCC_AHB1ENR REGISTER(0x40023830u)
#define RCC_APB1ENR REGISTER(0x40023840u)
#define RCC_APB2ENR REGISTER(0x40023844u)
#define GPIOA_MODER REGISTER(0x40020000u)
#define GPIOA_AFRH REGISTER(0x40020024u)
#define USART_SR REGISTER(0x40011000u)
#define USART_DR REGISTER(0x40011004u)
#define USART_BRR REGISTER(0x40011008u)
#define USART_CR1 REGISTER(0x4001100Cu)
#define RXNE (1u << 5) /* in SR, and with the same bits the interrupts in CR1 */
#define TXE (1u << 7)
#define RECEIVING (1u << 13 | 1u << 5 | 1u << 3 | 1u << 2) /* UE, RXNEIE, TE, RE */
#define TIM2_CR1 REGISTER(0x40000000u)
#define TIM2_EGR REGISTER(0x40000014u)
#define TIM2_CNT REGISTER(0x40000024u)
#define TIM2_PSC REGISTER(0x40000028u)
#define DWT_CTRL REGISTER(0xE0001000u)
#define DWT_CYCCNT REGISTER(0xE0001004u)
#define NVIC_ISER1 REGISTER(0xE000E104u)
#define NVIC_ICPR1 REGISTER(0xE000E284u)
#define USART1_IRQ (1u << (37 - 32))
#define CPACR REGISTER(0xE000ED88u)
#define DEMCR REGISTER(0xE000EDFCu)

#define BUS_HZ 84000000u
#define RING 256u /* received bytes that wait; the index has 8 bits */

#ifndef RTSIM_BAUD
#define RTSIM_BAUD 2000000
#endif

const uint32_t rtsim_clock_hz = 2u * BUS_HZ;

static uint8_t ring[RING], first, last;
static const uint8_t *sending;
static uint16_t unsent;

uint32_t rtsim_cycles(void)
{
    return DWT_CYCCNT;
}

uint32_t rtsim_micros(void)
{
    return TIM2_CNT;
}

void rtsim_prepare(void)
{
    __asm__ volatile("cpsid i" ::: "memory");
    CPACR |= 0xFu << 20; /* the floating-point unit */
    __asm__ volatile("dsb\n\tisb" ::: "memory");
}

static void begin(void)
{
    RCC_AHB1ENR |= 1u << 0; /* GPIOA */
    RCC_APB1ENR |= 1u << 0; /* TIM2 */
    RCC_APB2ENR |= 1u << 4; /* USART1 */
    GPIOA_AFRH = (GPIOA_AFRH & ~0xFF0u) | 0x770u; /* USART1 at PA9 and PA10 */
    GPIOA_MODER = (GPIOA_MODER & ~(0xFu << 18)) | 0xAu << 18;
    DEMCR |= 1u << 24;
    DWT_CYCCNT = 0;
    DWT_CTRL |= 1u;
    TIM2_PSC = BUS_HZ / 1000000u - 1u;
    TIM2_EGR = 1u;
    TIM2_CR1 = 1u;
    USART_BRR = (BUS_HZ + RTSIM_BAUD / 2u) / RTSIM_BAUD;
    USART_CR1 = RECEIVING;
    NVIC_ISER1 = USART1_IRQ;
}

/* Takes a byte from the line and gives one to it, if they are ready. */
static void exchange(void)
{
    uint32_t status = USART_SR;
    if (status & RXNE) {
        uint8_t next = (uint8_t)(last + 1u), byte = (uint8_t)USART_DR;
        if (next != first) {
            ring[last] = byte;
            last = next;
        }
    }
    if (unsent && (status & TXE)) {
        USART_DR = *sending++;
        if (--unsent == 0) {
            USART_CR1 = RECEIVING;
        }
    }
}

/* `frame` stays as it is until the next byte is fed, and none is fed before all is sent. */
static void send(const uint8_t *frame, uint16_t size)
{
    sending = frame;
    unsent = size;
    if (size) {
        USART_CR1 = RECEIVING | TXE;
    }
}

/* Sleeps until the line needs the processor.  An event after the question sets the interrupt's
 * pending bit, which ends WFI at once. */
static void doze(void)
{
    NVIC_ICPR1 = USART1_IRQ;
    if (!(USART_SR & (RXNE | (unsent ? TXE : 0)))) {
        __asm__ volatile("wfi" ::: "memory");
    }
}

void rtsim_serve(void)
{
    uint16_t size;
    const uint8_t *frame;

    begin();
    frame = rtsim_board_begin(rtsim_next_nonce(), 0, &size);
    send(frame, size);
    for (;;) {
        exchange();
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

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {
    &rtsim_stack_top, (void *)rtsim_reset, (void *)rtsim_fault, (void *)rtsim_fault,
    (void *)rtsim_fault, (void *)rtsim_fault, (void *)rtsim_fault,
    [11] = (void *)rtsim_fault, [14] = (void *)rtsim_fault, [15] = (void *)rtsim_fault,
};

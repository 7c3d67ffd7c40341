#include "start.h"

#include "board.h"

#define PAINT 0xC5C5C5C5u
#define CLEAN 256u        /* painted words in a row below which the stack is taken as unused */
#define MOST_STACK 65532u /* rtsim_stack_bytes has 16 bits */

extern uint32_t rtsim_data_begin, rtsim_data_end, rtsim_data_load;
extern uint32_t rtsim_bss_begin, rtsim_bss_end, rtsim_static_end;
typedef void (*constructor)(void); /* of a static object in C++ */
extern constructor rtsim_constructors_begin, rtsim_constructors_end;

static uint32_t nonce __attribute__((section(".noinit")));
static uint32_t *bottom, *mark; /* the lowest words of the stack, and of its part that was used */

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

uint32_t rtsim_next_nonce(void)
{
    nonce = nonce * 1664525u + 1013904223u;
    return nonce;
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

void rtsim_reset(void)
{
    uint32_t *from = &rtsim_data_load, *top;

    rtsim_prepare();
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
    rtsim_serve();
}

void rtsim_fault(void)
{
    __asm__ volatile("bkpt 0");
    for (;;) {
    }
}

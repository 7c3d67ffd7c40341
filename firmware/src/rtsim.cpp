/* The part of a board that differs, made of micros() alone: execution times have its resolution, and
 * the use of the stack is not measured. */
#include "rtsim.h"

const uint32_t rtsim_clock_hz = 1000000; /* rtsim_cycles() counts us */

RtsimBoard rtsim;

#if defined(__AVR__) || defined(__arm__)
static uint32_t nonce __attribute__((section(".noinit"))); /* kept over a reset */
#else
static uint32_t nonce;
#endif

uint32_t rtsim_micros(void)
{
    return (uint32_t)micros();
}

uint32_t rtsim_cycles(void)
{
    return (uint32_t)micros();
}

uint16_t rtsim_stack_used(void)
{
    return 0;
}

uint16_t rtsim_stack_bytes(void)
{
    return 0xFFFF;
}

void RtsimBoard::begin(Stream &line)
{
    uint16_t size;
    const uint8_t *frame;

    line_ = &line;
    nonce = nonce * 1664525u + 1013904223u + rtsim_micros();
    frame = rtsim_board_begin(nonce, 0, &size);
    line_->write(frame, size);
}

void RtsimBoard::poll()
{
    while (line_ && line_->available() > 0) {
        uint16_t size;
        const uint8_t *frame = rtsim_board_feed((uint8_t)line_->read(), &size);
        if (frame) {
            line_->write(frame, size);
        }
    }
    rtsim_idle();
}

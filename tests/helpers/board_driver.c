/* The dispatcher on the host, for tests: behind standard input and output, around a controller that
 * returns its first inputs, as FakeBoard does.
 *
 *   records (u16 length, bytes) are fed; after each: u32 length and bytes of what was answered
 *   a record of 4 bytes whose length is said as 0xFFFF is a reset with this boot nonce
 *   one of 2 bytes said as 0xFFFE is the stack used from now on, of 1000 bytes
 */
#include <stdio.h>
#include <string.h>

#include "board.h"

const uint64_t rtsim_schema = SCHEMA;
const uint32_t rtsim_name_hash = NAME_HASH, rtsim_build = 1, rtsim_clock_hz = 16000000;
const uint16_t rtsim_input_bytes = INPUTS, rtsim_output_bytes = OUTPUTS;
const uint16_t rtsim_parameter_bytes = PARAMETERS;
uint8_t rtsim_parameters[PARAMETERS];

static uint16_t stack = 200;
static int running;
static uint8_t answered[1 << 20];

int16_t rtsim_start(const uint8_t *parameters)
{
    (void)parameters;
    if (running) return 99; /* it was not terminated */
    running = 1;
    return 0;
}

int16_t rtsim_step(uint64_t ns, const uint8_t *inputs, uint8_t *outputs, uint32_t *cycles)
{
    (void)ns;
    memcpy(outputs, inputs, OUTPUTS);
    *cycles = 1000;
    return 0;
}

void rtsim_terminate(void) { running = 0; }
uint32_t rtsim_micros(void) { return 0; }
uint32_t rtsim_cycles(void) { return 0; }
uint16_t rtsim_stack_used(void) { return stack; }
uint16_t rtsim_stack_bytes(void) { return 1000; }

static size_t take(const uint8_t *bytes, size_t count, size_t at)
{
    if (at + count > sizeof answered) return at;
    memcpy(answered + at, bytes, count);
    return at + count;
}

static int next(uint8_t *into, size_t count) { return fread(into, 1, count, stdin) == count; }

int main(void)
{
    static uint8_t head[4], record[65536];
    const uint8_t *frame;
    uint16_t size;

    while (next(head, 2)) {
        size_t length = head[0] | (size_t)head[1] << 8, at = 0, k;
        if (length == 0xFFFF) {
            if (!next(head, 4)) return 2;
            running = 0;
            stack = 200;
            frame = rtsim_board_begin(head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16
                                          | (uint32_t)head[3] << 24, 2, &size);
            at = take(frame, size, at);
        } else if (length == 0xFFFE) {
            if (!next(head, 2)) return 2;
            stack = (uint16_t)(head[0] | head[1] << 8);
        } else {
            if (!next(record, length)) return 2;
            for (k = 0; k < length; k++) {
                frame = rtsim_board_feed(record[k], &size);
                if (frame) at = take(frame, size, at);
            }
        }
        for (k = 0; k < 4; k++) putchar((int)(at >> 8 * k & 0xFF));
        fwrite(answered, 1, at, stdout);
        fflush(stdout);
    }
    return 0;
}

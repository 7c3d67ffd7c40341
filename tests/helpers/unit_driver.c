/* A generated unit of a board with the dispatcher, on the host: bytes from stdin are fed, answers go
 * to stdout. */
#include <stdio.h>

#include "../rtsim/board.h"

const uint32_t rtsim_clock_hz = 16000000;
static uint32_t now;
uint32_t rtsim_micros(void) { return 0; }
uint32_t rtsim_cycles(void) { return now++; }
uint16_t rtsim_stack_used(void) { return 100; }
uint16_t rtsim_stack_bytes(void) { return 1000; }

int main(void)
{
    uint16_t size;
    int byte;
    rtsim_board_begin(7, 0, &size);
    while ((byte = getchar()) != EOF) {
        const uint8_t *frame = rtsim_board_feed((uint8_t)byte, &size);
        if (frame) {
            fwrite(frame, 1, size, stdout);
            fflush(stdout);
        }
    }
    return 0;
}

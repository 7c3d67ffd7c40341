/* The messages of hitl/worker/messages.py. */
#ifndef RTSIM_MESSAGE_H
#define RTSIM_MESSAGE_H

#include <stdint.h>

enum { HELLO = 1, START, READY, STEP, ANSWER, STOP, BYE };
enum { VERSION = 1 };

struct header {
    char magic[4];
    uint8_t version, kind;
    int16_t unused;
    int32_t status;
    uint32_t count;
    uint64_t schema, sequence;
    int64_t ns, step, began_ns, took_ns;
};
_Static_assert(sizeof(struct header) == 64, "the header has 64 bytes on both ends");

#endif

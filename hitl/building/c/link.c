/* The runtime's end of a link over shared memory, as a library that hitl/worker/shared.py calls. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "rtsim_link.h"

size_t rtsim_link_bytes(size_t slot_bytes) { return link_bytes(slot_bytes); }

struct link_end *rtsim_link_open(int fd, int side, size_t slot_bytes)
{
    struct link_end *end = malloc(sizeof *end);
    if (end != NULL && !link_open(end, fd, side, slot_bytes)) {
        free(end);
        return NULL;
    }
    return end;
}

int rtsim_link_send(struct link_end *end, const void *data, size_t size)
{
    return link_send(end, data, size);
}

int rtsim_link_receive(struct link_end *end, void *into, size_t most, int64_t until_ns)
{
    return link_receive(end, into, most, until_ns);
}

int rtsim_link_closed(const struct link_end *end) { return link_closed(end); }

void rtsim_link_close(struct link_end *end)
{
    link_close(end);
    free(end);
}

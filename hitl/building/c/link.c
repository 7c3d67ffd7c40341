/* The runtime's end of a link over shared memory, as a library that hitl/worker/link.py calls. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "rtsim_link.h"
#include "rtsim_message.h"

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

void rtsim_link_announce(struct link_end *end) { link_announce(end); }

int rtsim_link_closed(const struct link_end *end) { return link_closed(end); }

void rtsim_link_close(struct link_end *end)
{
    link_close(end);
    free(end);
}

/* The steps of one controller.  A request and an answer take one call each, which is the fast path: the
 * interpreter would need longer for the messages than the other process needs for the step. */
struct steps {
    struct link_end *end;
    const double *inputs;
    double *outputs;
    int64_t *stamps; /* sent, begun, ended, received */
    struct header asked;
    size_t request_bytes, answer_bytes;
    char *message, *heard;
};

void rtsim_steps_free(struct steps *steps)
{
    free(steps->message);
    free(steps->heard);
    free(steps);
}

struct steps *rtsim_steps_new(struct link_end *end, uint64_t schema, const double *inputs, size_t m,
                              double *outputs, size_t n, int64_t *stamps)
{
    struct steps *steps = calloc(1, sizeof *steps);
    if (steps == NULL) return NULL;
    steps->end = end;
    steps->inputs = inputs;
    steps->outputs = outputs;
    steps->stamps = stamps;
    steps->asked = (struct header){.magic = "RTSM", .version = VERSION, .kind = STEP,
                                   .count = (uint32_t)m, .schema = schema};
    steps->request_bytes = sizeof(struct header) + 8 * m;
    steps->answer_bytes = sizeof(struct header) + 8 * n;
    steps->message = malloc(steps->request_bytes);
    steps->heard = malloc(steps->answer_bytes);
    if (steps->message != NULL && steps->heard != NULL) return steps;
    rtsim_steps_free(steps);
    return NULL;
}

/* 1: the request was sent; else it was not, and rtsim_link_send says why. */
int rtsim_steps_request(struct steps *steps, uint64_t sequence, int64_t ns, int64_t step)
{
    if (link_closed(steps->end)) return 0;
    steps->asked.sequence = sequence;
    steps->asked.ns = ns;
    steps->asked.step = step;
    memcpy(steps->message, &steps->asked, sizeof steps->asked);
    memcpy(steps->message + sizeof steps->asked, steps->inputs,
           steps->request_bytes - sizeof steps->asked);
    steps->stamps[0] = link_now();
    return link_send(steps->end, steps->message, steps->request_bytes);
}

/* Wait for at most patience_ns.
 * The execution time in ns, if the next message is the right answer to the request: then its values are
 * in the outputs.  Else -1: a message that is not the right answer stays in the queue for
 * rtsim_link_receive, whose caller says what is wrong with it. */
int64_t rtsim_steps_answer(struct steps *steps, int64_t patience_ns)
{
    const size_t bytes = steps->answer_bytes, values = bytes - sizeof(struct header);
    const int size = link_await(steps->end, steps->heard, bytes, link_now() + patience_ns);
    if (size < 0 || (size_t)size != bytes) return -1;
    struct header head;
    memcpy(&head, steps->heard, sizeof head);
    if (memcmp(head.magic, steps->asked.magic, 4) != 0 || head.version != VERSION ||
        head.kind != ANSWER || head.status != 0 || head.count != values / 8 ||
        head.sequence != steps->asked.sequence || head.ns != steps->asked.ns ||
        head.step != steps->asked.step || head.took_ns < 0)
        return -1;
    link_pop(steps->end);
    memcpy(steps->outputs, steps->heard + sizeof head, values);
    steps->stamps[1] = head.began_ns;
    steps->stamps[2] = head.began_ns + head.took_ns;
    steps->stamps[3] = link_now();
    return head.took_ns;
}

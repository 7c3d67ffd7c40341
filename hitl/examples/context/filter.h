/* A low-pass filter of first order that can be held. */
#ifndef FILTER_H
#define FILTER_H

#include <stdbool.h>
#include <stdint.h>

struct filter {
    double time_constant; /* s */
    double state;
    uint32_t steps;
};

struct filter_in {
    double signal;
    bool hold;
};

struct filter_out {
    double filtered;
    uint32_t steps;
};

void filter_init(struct filter *context);
void filter_step(struct filter *context, const struct filter_in *in, struct filter_out *out);
void filter_terminate(struct filter *context);

#endif

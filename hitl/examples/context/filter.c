#include "filter.h"

static const double period = 0.01; /* s */

void filter_init(struct filter *context)
{
    *context = (struct filter){.time_constant = 0.1};
}

void filter_step(struct filter *context, const struct filter_in *in, struct filter_out *out)
{
    if (!in->hold) {
        const double share = period / (context->time_constant + period);
        context->state += share * (in->signal - context->state);
    }
    context->steps++;
    out->filtered = context->state;
    out->steps = context->steps;
}

void filter_terminate(struct filter *context)
{
    context->state = 0.0;
}

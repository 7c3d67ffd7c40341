#include "types.h"

void types_pass_scalars(const types_scalars *in, types_scalars *out)
{
    *out = *in;
}

void types_pass_arrays(const types_arrays *in, types_arrays *out)
{
    *out = *in;
}

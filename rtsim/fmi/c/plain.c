/* The functions of a library without FMI. */
#include "model.h"

#include <math.h>

#include "plain.h"

EXPORT struct instance *model_name_new(void) { return model_new(); }
EXPORT void model_name_free(struct instance *c) { model_free(c); }
EXPORT int model_name_reset(struct instance *c) {
  model_reset(c);
  return GOOD;
}
EXPORT int model_name_set(struct instance *c, unsigned variable, double value) {
  return model_set(c, variable, value);
}
EXPORT double model_name_get(struct instance *c, unsigned variable) {
  double value;
  return model_get(c, variable, &value) == FAILED ? NAN : value;
}
EXPORT int model_name_run(struct instance *c, double until_s) {
  if (!c->begun) {
    int answer = model_begin(c);
    if (answer != GOOD) return answer;
  }
  return until_s < c->time ? FAILED : until_s == c->time ? GOOD : model_run(c, until_s);
}

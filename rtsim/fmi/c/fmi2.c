/* The functions of FMI 2.0 (https://fmi-standard.org, FMI 2.0.5, sections 2 to 4). */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum status { OK, WARNING, DISCARD, ERROR, FATAL, PENDING };
typedef void (*logger_t)(void *, const char *, int, const char *, const char *, ...);
struct callbacks {
  logger_t logger;
  void *(*allocate)(size_t, size_t);
  void (*release)(void *);
  void (*finished)(void *, int);
  void *environment;
};
struct event_info {
  int again, terminate, nominals_changed, values_changed, next_defined;
  double next;
};

static int fail(struct instance *c, const char *what) {
  logger_t log = (logger_t)(intptr_t)c->logger;
  if (log) log(c->environment, c->name, ERROR, "logStatusError", "%s", what);
  return ERROR;
}

static int told(struct instance *c, int answer) {
  if (answer != FAILED) return OK;
  return fail(c, "the model cannot go on: a value is not finite, a guard is not a number, or events "
                 "accumulate without a stop mode");
}

EXPORT const char *fmi2GetTypesPlatform(void) { return "default"; }
EXPORT const char *fmi2GetVersion(void) { return "2.0"; }
EXPORT int fmi2SetDebugLogging(struct instance *c, int on, size_t n, const char *const categories[]) {
  (void)n, (void)categories;
  c->logging = on;
  return OK;
}

EXPORT struct instance *fmi2Instantiate(const char *name, int type, const char *token,
                                        const char *resources, const struct callbacks *callbacks,
                                        int visible, int logging) {
  (void)resources, (void)visible;
  struct instance *c = model_new();
  if (!c) return NULL;
  c->logger = callbacks ? (void *)(intptr_t)callbacks->logger : NULL;
  c->environment = callbacks ? callbacks->environment : NULL;
  c->logging = logging;
  c->exchange = type == 0;
  c->name = malloc(strlen(name) + 1);
  if (c->name) strcpy(c->name, name);
  const char *wrong = NULL;
  if (!token || strcmp(token, model_token)) wrong = "the guid belongs to another modelDescription.xml";
  else if (c->exchange && !model_exchange)
    wrong = "the model is a Co-Simulation only";
  if (!wrong && c->name) return c;
  if (wrong) fail(c, wrong);
  model_free(c);
  return NULL;
}

EXPORT void fmi2FreeInstance(struct instance *c) { model_free(c); }
EXPORT int fmi2SetupExperiment(struct instance *c, int tolerance_defined, double tolerance, double start,
                               int stop_defined, double stop) {
  (void)tolerance_defined, (void)tolerance, (void)stop_defined, (void)stop;
  return start == 0.0 ? OK : fail(c, "the start time must be 0");
}
EXPORT int fmi2EnterInitializationMode(struct instance *c) {
  (void)c;
  return OK;
}
EXPORT int fmi2ExitInitializationMode(struct instance *c) { return told(c, model_begin(c)); }
EXPORT int fmi2Terminate(struct instance *c) {
  (void)c;
  return OK;
}
EXPORT int fmi2Reset(struct instance *c) {
  model_reset(c);
  return OK;
}

EXPORT int fmi2GetReal(struct instance *c, const unsigned vr[], size_t n, double value[]) {
  for (size_t i = 0; i < n; i++)
    if (model_get(c, vr[i], &value[i]) == FAILED) return fail(c, "a value cannot be computed");
  return OK;
}
EXPORT int fmi2SetReal(struct instance *c, const unsigned vr[], size_t n, const double value[]) {
  for (size_t i = 0; i < n; i++)
    if (model_set(c, vr[i], value[i]) == FAILED) return fail(c, "this variable cannot be set now");
  return OK;
}

/* The model has only Real variables. */
#define NO_VARIABLES(name)                                                    \
  EXPORT int name(struct instance *c, const unsigned vr[], size_t n) {       \
    (void)vr;                                                                 \
    return n ? fail(c, #name ": the model has only Real variables") : OK;    \
  }
NO_VARIABLES(fmi2GetInteger)
NO_VARIABLES(fmi2SetInteger)
NO_VARIABLES(fmi2GetBoolean)
NO_VARIABLES(fmi2SetBoolean)
NO_VARIABLES(fmi2GetString)
NO_VARIABLES(fmi2SetString)

#define REFUSED(name) \
  EXPORT int name(struct instance *c) { return fail(c, #name " is not supported"); }
REFUSED(fmi2GetDirectionalDerivative)
REFUSED(fmi2SetRealInputDerivatives)
REFUSED(fmi2GetRealOutputDerivatives)
REFUSED(fmi2CancelStep)
REFUSED(fmi2GetStatus)
REFUSED(fmi2GetIntegerStatus)
REFUSED(fmi2GetStringStatus)

EXPORT int fmi2GetFMUstate(struct instance *c, void **state) {
  if (!*state) *state = malloc(model_saved_bytes());
  if (!*state) return fail(c, "no memory");
  model_save(c, *state);
  return OK;
}
EXPORT int fmi2SetFMUstate(struct instance *c, void *state) {
  model_restore(c, state);
  return OK;
}
EXPORT int fmi2FreeFMUstate(struct instance *c, void **state) {
  (void)c;
  if (state) free(*state), *state = NULL;
  return OK;
}
EXPORT int fmi2SerializedFMUstateSize(struct instance *c, void *state, size_t *size) {
  (void)c, (void)state;
  *size = model_saved_bytes();
  return OK;
}
EXPORT int fmi2SerializeFMUstate(struct instance *c, void *state, char into[], size_t size) {
  if (size < model_saved_bytes()) return fail(c, "the serialised state does not fit into the memory");
  memcpy(into, state, model_saved_bytes());
  return OK;
}
EXPORT int fmi2DeSerializeFMUstate(struct instance *c, const char from[], size_t size, void **state) {
  if (size != model_saved_bytes() || !model_owns(from))
    return fail(c, "the serialised state belongs to another model");
  if (!*state) *state = malloc(size);
  if (!*state) return fail(c, "no memory");
  memcpy(*state, from, size);
  return OK;
}

/* Model Exchange */
EXPORT int fmi2EnterEventMode(struct instance *c) {
  (void)c;
  return OK;
}
EXPORT int fmi2NewDiscreteStates(struct instance *c, struct event_info *info) {
  memset(info, 0, sizeof *info);
  int answer = model_event(c, &info->values_changed, &info->next_defined, &info->next);
  info->terminate = answer == ENDED;
  return told(c, answer);
}
EXPORT int fmi2EnterContinuousTimeMode(struct instance *c) {
  (void)c;
  return OK;
}
EXPORT int fmi2CompletedIntegratorStep(struct instance *c, int no_earlier, int *event_mode, int *terminate) {
  (void)no_earlier;
  *event_mode = *terminate = 0;
  return model_indicators ? told(c, (int)model_do(c, STEP_DONE, 0)) : OK;
}
EXPORT int fmi2SetTime(struct instance *c, double time) {
  c->time = time;
  c->stale = 1;
  return OK;
}
EXPORT int fmi2SetContinuousStates(struct instance *c, const double x[], size_t n) {
  if (n != model_states) return fail(c, "wrong number of continuous states");
  model_set_states(c, x);
  return OK;
}
EXPORT int fmi2GetDerivatives(struct instance *c, double dx[], size_t n) {
  if (n != model_states) return fail(c, "wrong number of derivatives");
  return told(c, model_vector(c, DERIVATIVES, model_first_derivative, dx, model_states));
}
EXPORT int fmi2GetEventIndicators(struct instance *c, double z[], size_t n) {
  if (n != model_indicators) return fail(c, "wrong number of event indicators");
  return told(c, model_vector(c, INDICATORS, model_first_indicator, z, model_indicators));
}
EXPORT int fmi2GetContinuousStates(struct instance *c, double x[], size_t n) {
  if (n != model_states) return fail(c, "wrong number of continuous states");
  memcpy(x, c->words + model_first_state, sizeof(double) * n);
  return OK;
}
EXPORT int fmi2GetNominalsOfContinuousStates(struct instance *c, double x[], size_t n) {
  if (n != model_states) return fail(c, "wrong number of continuous states");
  for (size_t i = 0; i < n; i++) x[i] = 1.0;
  return OK;
}

/* Co-Simulation */
EXPORT int fmi2DoStep(struct instance *c, double t, double h, int no_earlier) {
  (void)no_earlier;
  if (!(h >= 0.0) || fabs(t - c->time) > 1e-9 * (1.0 + fabs(t)))
    return fail(c, "the communication step must begin where the last step ended, and be >= 0");
  int answer = model_run(c, t + h);
  return answer == ENDED ? DISCARD : told(c, answer);
}
EXPORT int fmi2GetRealStatus(struct instance *c, int kind, double *value) {
  if (kind != 2) return fail(c, "only the last successful time is known");
  int64_t now = model_do(c, NOW, 0);
  *value = (double)now / 1e9;
  return OK;
}
EXPORT int fmi2GetBooleanStatus(struct instance *c, int kind, int *value) {
  if (kind != 3) return fail(c, "only the status terminated is known");
  *value = 1; /* the importer asks after a step with the status discard */
  return OK;
}

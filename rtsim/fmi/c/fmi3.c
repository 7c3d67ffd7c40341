/* The functions of FMI 3.0 (https://fmi-standard.org, FMI 3.0.2). */
#include "model.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum status { OK, WARNING, DISCARD, ERROR, FATAL };
typedef void (*logger_t)(void *, int, const char *, const char *);

static int fail(struct instance *c, const char *what) {
  logger_t log = (logger_t)(intptr_t)c->logger;
  if (log) log(c->environment, ERROR, "logStatusError", what);
  return ERROR;
}

static int told(struct instance *c, int answer) {
  if (answer != FAILED) return OK;
  return fail(c, "the model cannot go on: a value is not finite, a guard is not a number, or events "
                 "accumulate without a stop mode");
}

EXPORT const char *fmi3GetVersion(void) { return "3.0"; }
EXPORT int fmi3SetDebugLogging(struct instance *c, bool on, size_t n, const char *const categories[]) {
  (void)n, (void)categories;
  c->logging = on;
  return OK;
}

static struct instance *instantiate(const char *token, void *environment, logger_t log, bool logging,
                                    int exchange, const char *wrong) {
  struct instance *c = model_new();
  if (!c) return NULL;
  c->logger = (void *)(intptr_t)log;
  c->environment = environment;
  c->logging = logging;
  c->exchange = exchange;
  if (!token || strcmp(token, model_token))
    wrong = "the instantiation token belongs to another modelDescription.xml";
  if (!wrong) return c;
  fail(c, wrong);
  model_free(c);
  return NULL;
}

EXPORT struct instance *fmi3InstantiateModelExchange(const char *name, const char *token,
                                                     const char *resources, bool visible, bool logging,
                                                     void *environment, logger_t log) {
  (void)name, (void)resources, (void)visible;
  const char *wrong = model_exchange ? NULL : "the model is a Co-Simulation only";
  return instantiate(token, environment, log, logging, 1, wrong);
}
EXPORT struct instance *fmi3InstantiateCoSimulation(const char *name, const char *token,
                                                    const char *resources, bool visible, bool logging,
                                                    bool event_mode, bool early_return,
                                                    const uint32_t required[], size_t n,
                                                    void *environment, logger_t log, void *update) {
  (void)name, (void)resources, (void)visible, (void)early_return, (void)required, (void)n, (void)update;
  const char *wrong = event_mode ? "the model has no event mode in Co-Simulation" : NULL;
  return instantiate(token, environment, log, logging, 0, wrong);
}
EXPORT struct instance *fmi3InstantiateScheduledExecution(const char *name, const char *token,
                                                          const char *resources, bool visible,
                                                          bool logging, void *environment, logger_t log) {
  (void)name, (void)resources, (void)visible;
  return instantiate(token, environment, log, logging, 0, "the model has no Scheduled Execution");
}
EXPORT void fmi3FreeInstance(struct instance *c) { model_free(c); }
EXPORT int fmi3EnterInitializationMode(struct instance *c, bool tolerance_defined, double tolerance,
                                       double start, bool stop_defined, double stop) {
  (void)tolerance_defined, (void)tolerance, (void)stop_defined, (void)stop;
  return start == 0.0 ? OK : fail(c, "the start time must be 0");
}
EXPORT int fmi3ExitInitializationMode(struct instance *c) { return told(c, model_begin(c)); }

#define NOTHING_TO_DO(name)              \
  EXPORT int name(struct instance *c) { \
    (void)c;                             \
    return OK;                           \
  }
NOTHING_TO_DO(fmi3EnterEventMode)
NOTHING_TO_DO(fmi3EnterContinuousTimeMode)
NOTHING_TO_DO(fmi3EnterStepMode)
NOTHING_TO_DO(fmi3EvaluateDiscreteStates)
NOTHING_TO_DO(fmi3Terminate)
EXPORT int fmi3Reset(struct instance *c) {
  model_reset(c);
  return OK;
}

EXPORT int fmi3GetFloat64(struct instance *c, const uint32_t vr[], size_t n, double value[], size_t values) {
  if (values != n) return fail(c, "all variables are scalars: give as many values as references");
  for (size_t i = 0; i < n; i++)
    if (model_get(c, vr[i], &value[i]) == FAILED) return fail(c, "a value cannot be computed");
  return OK;
}
EXPORT int fmi3SetFloat64(struct instance *c, const uint32_t vr[], size_t n, const double value[],
                          size_t values) {
  if (values != n) return fail(c, "all variables are scalars: give as many values as references");
  for (size_t i = 0; i < n; i++)
    if (model_set(c, vr[i], value[i]) == FAILED) return fail(c, "this variable cannot be set now");
  return OK;
}

/* The model has only Float64 variables. */
#define NO_VARIABLES(type)                                                           \
  EXPORT int fmi3Get##type(struct instance *c, const uint32_t vr[], size_t n) {     \
    (void)vr;                                                                        \
    return n ? fail(c, "the model has only Float64 variables, no " #type) : OK;     \
  }                                                                                  \
  EXPORT int fmi3Set##type(struct instance *c, const uint32_t vr[], size_t n) {     \
    (void)vr;                                                                        \
    return n ? fail(c, "the model has only Float64 variables, no " #type) : OK;     \
  }
NO_VARIABLES(Float32)
NO_VARIABLES(Int8)
NO_VARIABLES(UInt8)
NO_VARIABLES(Int16)
NO_VARIABLES(UInt16)
NO_VARIABLES(Int32)
NO_VARIABLES(UInt32)
NO_VARIABLES(Int64)
NO_VARIABLES(UInt64)
NO_VARIABLES(Boolean)
NO_VARIABLES(String)
NO_VARIABLES(Binary)
NO_VARIABLES(Clock)

#define REFUSED(name) \
  EXPORT int name(struct instance *c) { return fail(c, #name " is not supported"); }
REFUSED(fmi3GetNumberOfVariableDependencies)
REFUSED(fmi3GetVariableDependencies)
REFUSED(fmi3GetDirectionalDerivative)
REFUSED(fmi3GetAdjointDerivative)
REFUSED(fmi3EnterConfigurationMode)
REFUSED(fmi3ExitConfigurationMode)
REFUSED(fmi3GetIntervalDecimal)
REFUSED(fmi3GetIntervalFraction)
REFUSED(fmi3GetShiftDecimal)
REFUSED(fmi3GetShiftFraction)
REFUSED(fmi3SetIntervalDecimal)
REFUSED(fmi3SetIntervalFraction)
REFUSED(fmi3SetShiftDecimal)
REFUSED(fmi3SetShiftFraction)
REFUSED(fmi3GetOutputDerivatives)
REFUSED(fmi3ActivateModelPartition)

EXPORT int fmi3GetFMUState(struct instance *c, void **state) {
  if (!*state) *state = malloc(model_saved_bytes());
  if (!*state) return fail(c, "no memory");
  model_save(c, *state);
  return OK;
}
EXPORT int fmi3SetFMUState(struct instance *c, void *state) {
  model_restore(c, state);
  return OK;
}
EXPORT int fmi3FreeFMUState(struct instance *c, void **state) {
  (void)c;
  if (state) free(*state), *state = NULL;
  return OK;
}
EXPORT int fmi3SerializedFMUStateSize(struct instance *c, void *state, size_t *size) {
  (void)c, (void)state;
  *size = model_saved_bytes();
  return OK;
}
EXPORT int fmi3SerializeFMUState(struct instance *c, void *state, uint8_t into[], size_t size) {
  if (size < model_saved_bytes()) return fail(c, "the serialised state does not fit into the memory");
  memcpy(into, state, model_saved_bytes());
  return OK;
}
EXPORT int fmi3DeserializeFMUState(struct instance *c, const uint8_t from[], size_t size, void **state) {
  if (size != model_saved_bytes() || !model_owns(from))
    return fail(c, "the serialised state belongs to another model");
  if (!*state) *state = malloc(size);
  if (!*state) return fail(c, "no memory");
  memcpy(*state, from, size);
  return OK;
}

/* Model Exchange */
EXPORT int fmi3UpdateDiscreteStates(struct instance *c, bool *again, bool *terminate, bool *nominals_changed,
                                    bool *values_changed, bool *next_defined, double *next) {
  int changed = 0, defined = 0;
  *again = *nominals_changed = *terminate = false;
  if (!c->exchange) {
    *values_changed = *next_defined = false;
    return OK;
  }
  int answer = model_event(c, &changed, &defined, next);
  *values_changed = changed;
  *next_defined = defined;
  *terminate = answer == ENDED;
  return told(c, answer);
}
EXPORT int fmi3CompletedIntegratorStep(struct instance *c, bool no_earlier, bool *event_mode,
                                       bool *terminate) {
  (void)no_earlier;
  *event_mode = *terminate = false;
  return model_indicators ? told(c, (int)model_do(c, STEP_DONE, 0)) : OK;
}
EXPORT int fmi3SetTime(struct instance *c, double time) {
  c->time = time;
  c->stale = 1;
  return OK;
}
EXPORT int fmi3SetContinuousStates(struct instance *c, const double x[], size_t n) {
  if (n != model_states) return fail(c, "wrong number of continuous states");
  model_set_states(c, x);
  return OK;
}
EXPORT int fmi3GetContinuousStateDerivatives(struct instance *c, double dx[], size_t n) {
  if (n != model_states) return fail(c, "wrong number of derivatives");
  return told(c, model_vector(c, DERIVATIVES, model_first_derivative, dx, model_states));
}
EXPORT int fmi3GetEventIndicators(struct instance *c, double z[], size_t n) {
  if (n != model_indicators) return fail(c, "wrong number of event indicators");
  return told(c, model_vector(c, INDICATORS, model_first_indicator, z, model_indicators));
}
EXPORT int fmi3GetContinuousStates(struct instance *c, double x[], size_t n) {
  if (n != model_states) return fail(c, "wrong number of continuous states");
  memcpy(x, c->words + model_first_state, sizeof(double) * n);
  return OK;
}
EXPORT int fmi3GetNominalsOfContinuousStates(struct instance *c, double x[], size_t n) {
  if (n != model_states) return fail(c, "wrong number of continuous states");
  for (size_t i = 0; i < n; i++) x[i] = 1.0;
  return OK;
}
EXPORT int fmi3GetNumberOfEventIndicators(struct instance *c, size_t *n) {
  (void)c;
  *n = model_indicators;
  return OK;
}
EXPORT int fmi3GetNumberOfContinuousStates(struct instance *c, size_t *n) {
  (void)c;
  *n = model_states;
  return OK;
}

/* Co-Simulation */
EXPORT int fmi3DoStep(struct instance *c, double t, double h, bool no_earlier, bool *event_needed,
                      bool *terminate, bool *early, double *reached) {
  (void)no_earlier;
  *event_needed = *terminate = *early = false;
  if (!(h >= 0.0) || fabs(t - c->time) > 1e-9 * (1.0 + fabs(t)))
    return fail(c, "the communication step must begin where the last step ended, and be >= 0");
  int answer = model_run(c, t + h);
  *reached = answer == ENDED ? (double)model_do(c, NOW, 0) / 1e9 : t + h;
  *terminate = answer == ENDED;
  return told(c, answer);
}

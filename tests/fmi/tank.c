/* A tank as FMU of FMI 2.0 and 3.0, for the tests of rtsim: written for these tests, without the
 * headers of the standard.  FMI is 2 or 3.
 *
 *   level' = inflow - k level,  level(0) = 1,  y = gain level (gain: see the enumeration "mode")
 *
 * An event occurs when the level crosses 2 (count + 1), and at 0.5 s (timed = 1).  With DRAIN, the
 * level is then 1 again.  A step after 0.45 s: CRASH, HANG and DISCARD do what they say; ENDS ends
 * the simulation, and EARLY returns before the end of the step (FMI 3.0).  With Model Exchange, ENDS
 * ends the simulation in the event at 0.5 s, and ENDS_STEP after the first solver step beyond 0.45 s.
 * With FROM_INPUT, the first level is the inflow.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CAT_(a, b, c) a##b##c
#define CAT(a, b, c) CAT_(a, b, c)
#define F(name) CAT(fmi, FMI, name)
#define STUB(name) int F(name)(void) { return 3; }
#if FMI == 2
typedef int flag;
typedef int whole;
#define N
#else
typedef bool flag;
typedef int64_t whole;
#define N , size_t count
#endif

enum { LEVEL, DER_LEVEL, INFLOW, Y, K, MODE, VALVE, TABLE, COUNT, TIMED, FACTORS, ABOVE };

typedef struct {
    double t, level, inflow, k, factors[3];
    int count, timed, above, exchange;
    whole mode;
    flag valve;
    char table[32];
} Tank;

static Tank start(int exchange) {
    Tank m = {0, 1, 0, 0.5, {1, 1, 1}, 0, 0, 0, exchange, 1, 1, "none"};
    return m;
}
static double slope(const Tank *m) { return (m->valve ? m->inflow : 0) - m->k * m->level; }
static int events(Tank *m) {
    int above = m->level > 2;
    if (above && !m->above) {
        m->count++;
#ifdef DRAIN
        m->level = 1;
#endif
    }
    above = m->level > 2;
    m->above = above;
    if (m->t >= 0.5 - 1e-12) m->timed = 1;
    return 0;
}
static int begin(Tank *m) {
#ifdef FROM_INPUT
    m->level = m->inflow;
#endif
    m->above = m->level > 2;
    return 0;
}
static double real_of(const Tank *m, unsigned vr, int i) {
    switch (vr) {
    case LEVEL: return m->level;
    case DER_LEVEL: return slope(m);
    case INFLOW: return m->inflow;
    case Y: return m->mode * m->level * m->factors[0] * m->factors[1] * m->factors[2];
    case K: return m->k;
    case ABOVE: return m->level - 2;
    default: return m->factors[i];
    }
}

void *create(int exchange) {
    Tank *m = malloc(sizeof *m);
    *m = start(exchange);
#ifdef CRASH_AT_START
    *(volatile int *)0 = 1;
#endif
    return m;
}
void F(FreeInstance)(void *m) { free(m); }
int F(Reset)(Tank *m) {
#ifndef KEEPS_STATE_IN_RESET
    *m = start(m->exchange);
#endif
    return 0;
}
int F(Terminate)(void *m) { (void)m; return 0; }
int F(EnterEventMode)(void *m) { (void)m; return 0; }
int F(EnterContinuousTimeMode)(void *m) { (void)m; return 0; }
int F(SetTime)(Tank *m, double t) { m->t = t; return 0; }
int F(SetContinuousStates)(Tank *m, const double *x, size_t n) { (void)n; m->level = x[0]; return 0; }
int F(GetContinuousStates)(Tank *m, double *x, size_t n) { (void)n; x[0] = m->level; return 0; }
int F(GetNominalsOfContinuousStates)(void *m, double *x, size_t n) { (void)m; (void)n; x[0] = 1; return 0; }
int F(GetEventIndicators)(Tank *m, double *g, size_t n) { (void)n; g[0] = m->level - 2; return 0; }
int F(CompletedIntegratorStep)(void *m, flag no, flag *enter, flag *end) {
    (void)m; (void)no; *enter = 0; *end = 0;
#ifdef ENDS_STEP
    *end = ((Tank *)m)->t > 0.45;
#endif
    return 0;
}

static int advance(Tank *m, double t, double h) {
#ifdef CRASH
    if (t > 0.45) *(volatile int *)0 = 1;
#endif
#ifdef HANG
    while (t > 0.45) {}
#endif
#ifdef DISCARD
    if (t > 0.45) return 2;
#endif
    int n = (int)ceil(h / 1e-3 - 1e-9);
    for (int i = 0; i < n; i++) {
        m->level += h / n * slope(m);
        m->t = t + (i + 1) * h / n;
        events(m);
    }
    return 0;
}

static int get_state(Tank *m, Tank **s) {
    if (!*s) *s = malloc(sizeof **s);
    **s = *m;
    return 0;
}
#if FMI == 2
int fmi2GetFMUstate(Tank *m, Tank **s) { return get_state(m, s); }
int fmi2SetFMUstate(Tank *m, Tank *s) { *m = *s; return 0; }
int fmi2FreeFMUstate(void *m, Tank **s) { (void)m; free(*s); *s = 0; return 0; }
int fmi2SerializedFMUstateSize(void *m, void *s, size_t *n) { (void)m; (void)s; *n = sizeof(Tank); return 0; }
int fmi2SerializeFMUstate(void *m, Tank *s, char *b, size_t n) { (void)m; memcpy(b, s, n); return 0; }
int fmi2DeSerializeFMUstate(void *m, const char *b, size_t n, Tank **s) {
    (void)m; *s = malloc(sizeof **s); memcpy(*s, b, n); return 0;
}
void *fmi2Instantiate(const char *name, int kind, const char *guid, const char *folder, void *back,
                      int visible, int log) {
    (void)name; (void)guid; (void)folder; (void)back; (void)visible; (void)log;
    return create(kind == 0);
}
const char *fmi2GetVersion(void) { return "2.0"; }
const char *fmi2GetTypesPlatform(void) { return "default"; }
int fmi2SetupExperiment(Tank *m, int d, double tol, double t, int e, double stop) {
    (void)d; (void)tol; (void)e; (void)stop; m->t = t; return 0;
}
int fmi2EnterInitializationMode(void *m) { (void)m; return 0; }
int fmi2ExitInitializationMode(Tank *m) { return begin(m); }
int fmi2GetDerivatives(Tank *m, double *dx, size_t n) { (void)n; dx[0] = slope(m); return 0; }
int fmi2NewDiscreteStates(Tank *m, void *info) {
    struct { int needed, terminate, nominals, values, defined; double at; } *i = info;
    memset(i, 0, sizeof *i);
    events(m);
#ifdef ENDS
    i->terminate = m->timed;
#endif
    i->defined = !m->timed;
    i->at = 0.5;
    return 0;
}
int fmi2DoStep(Tank *m, double t, double h, int no) {
    (void)no;
    int status = advance(m, t, h);
#ifdef ENDS
    if (t > 0.45) return 2;
#endif
    return status;
}
int fmi2GetRealStatus(Tank *m, int kind, double *v) { (void)kind; *v = m->t; return 0; }
int fmi2GetBooleanStatus(void *m, int kind, int *v) {
    (void)m; (void)kind; *v = 0;
#ifdef ENDS
    *v = 1;
#endif
    return 0;
}
#define REALS Real
#define WHOLES Integer
STUB(SetRealInputDerivatives) STUB(GetRealOutputDerivatives) STUB(CancelStep) STUB(GetStatus)
STUB(GetIntegerStatus) STUB(GetStringStatus) STUB(GetDirectionalDerivative)
#else
int fmi3GetFMUState(Tank *m, Tank **s) { return get_state(m, s); }
int fmi3SetFMUState(Tank *m, Tank *s) { *m = *s; return 0; }
int fmi3FreeFMUState(void *m, Tank **s) { (void)m; free(*s); *s = 0; return 0; }
int fmi3SerializedFMUStateSize(void *m, void *s, size_t *n) { (void)m; (void)s; *n = sizeof(Tank); return 0; }
int fmi3SerializeFMUState(void *m, Tank *s, uint8_t *b, size_t n) { (void)m; memcpy(b, s, n); return 0; }
int fmi3DeserializeFMUState(void *m, const uint8_t *b, size_t n, Tank **s) {
    (void)m; *s = malloc(sizeof **s); memcpy(*s, b, n); return 0;
}
void *fmi3InstantiateCoSimulation(void) { return create(0); }
void *fmi3InstantiateModelExchange(void) { return create(1); }
const char *fmi3GetVersion(void) { return "3.0"; }
int fmi3EnterInitializationMode(Tank *m, bool d, double tol, double t, bool e, double stop) {
    (void)d; (void)tol; (void)e; (void)stop; m->t = t; return 0;
}
int fmi3ExitInitializationMode(Tank *m) { return begin(m); }
int fmi3GetContinuousStateDerivatives(Tank *m, double *dx, size_t n) { (void)n; dx[0] = slope(m); return 0; }
int fmi3UpdateDiscreteStates(Tank *m, bool *needed, bool *end, bool *nominals, bool *values,
                             bool *defined, double *at) {
    *needed = *end = *nominals = *values = false;
    events(m);
#ifdef ENDS
    *end = m->timed;
#endif
    *defined = !m->timed;
    *at = 0.5;
    return 0;
}
int fmi3DoStep(Tank *m, double t, double h, bool no, bool *event, bool *end, bool *early, double *last) {
    (void)no; *event = *end = *early = false; *last = t + h;
#ifdef ENDS
    *end = t > 0.45;
#endif
#ifdef EARLY
    *early = t > 0.45;
    if (*early) *last = t + h / 2;
#endif
    return advance(m, t, h);
}
#define REALS Float64
#define WHOLES Int64
STUB(InstantiateScheduledExecution) STUB(GetFloat32) STUB(SetFloat32) STUB(GetInt8) STUB(SetInt8)
STUB(GetUInt8) STUB(SetUInt8) STUB(GetInt16) STUB(SetInt16) STUB(GetUInt16) STUB(SetUInt16)
STUB(GetInt32) STUB(SetInt32) STUB(GetUInt32) STUB(SetUInt32) STUB(GetUInt64) STUB(SetUInt64)
STUB(GetBinary) STUB(SetBinary) STUB(GetClock) STUB(SetClock) STUB(GetAdjointDerivative)
STUB(GetNumberOfVariableDependencies) STUB(GetVariableDependencies) STUB(GetDirectionalDerivative)
STUB(EnterConfigurationMode) STUB(ExitConfigurationMode) STUB(GetIntervalDecimal)
STUB(GetIntervalFraction) STUB(GetShiftDecimal) STUB(GetShiftFraction) STUB(SetIntervalDecimal)
STUB(SetIntervalFraction) STUB(SetShiftDecimal) STUB(SetShiftFraction) STUB(EvaluateDiscreteStates)
STUB(GetNumberOfEventIndicators) STUB(GetNumberOfContinuousStates) STUB(EnterStepMode)
STUB(GetOutputDerivatives) STUB(ActivateModelPartition)
#endif
STUB(SetDebugLogging)

int CAT(F(Get), REALS, )(Tank *m, const unsigned *vr, size_t n, double *v N) {
    size_t at = 0;
    for (size_t j = 0; j < n; j++)
        for (int i = 0; i < (vr[j] == FACTORS ? 3 : 1); i++) v[at++] = real_of(m, vr[j], i);
    return 0;
}
int CAT(F(Set), REALS, )(Tank *m, const unsigned *vr, size_t n, const double *v N) {
    size_t at = 0;
    for (size_t j = 0; j < n; j++) {
        if (vr[j] == LEVEL) m->level = v[at++];
        else if (vr[j] == INFLOW) m->inflow = v[at++];
        else if (vr[j] == K) m->k = v[at++];
        else if (vr[j] == FACTORS) { memcpy(m->factors, v + at, 24); at += 3; }
        else return 3;
    }
    return 0;
}
int CAT(F(Get), WHOLES, )(Tank *m, const unsigned *vr, size_t n, whole *v N) {
    for (size_t j = 0; j < n; j++) v[j] = vr[j] == MODE ? m->mode : vr[j] == COUNT ? m->count : m->timed;
    return 0;
}
int CAT(F(Set), WHOLES, )(Tank *m, const unsigned *vr, size_t n, const whole *v N) {
    for (size_t j = 0; j < n; j++) {
        if (vr[j] == VALVE) m->valve = v[j] != 0;
        else if (vr[j] == MODE) m->mode = v[j];
        else return 3;
    }
    return 0;
}
int F(GetBoolean)(Tank *m, const unsigned *vr, size_t n, flag *v N) {
    for (size_t j = 0; j < n; j++) v[j] = vr[j] == VALVE ? m->valve : m->table[0] == 'f';
    return 0;
}
int F(SetBoolean)(Tank *m, const unsigned *vr, size_t n, const flag *v N) {
    (void)vr; (void)n; m->valve = v[0]; return 0;
}
int F(GetString)(Tank *m, const unsigned *vr, size_t n, const char **v N) {
    (void)vr; (void)n; v[0] = m->table; return 0;
}
int F(SetString)(Tank *m, const unsigned *vr, size_t n, const char *const *v N) {
    (void)vr; (void)n; strncpy(m->table, v[0], 31); return 0;
}

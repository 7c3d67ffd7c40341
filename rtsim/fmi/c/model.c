/* Instances of an exported model. All values are in the words of the image. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#define FAR INT64_MAX
#define LAST_S 9.2e9 /* times in ns fit into 64 bits */

static void point(struct instance *c) {
  for (uint32_t i = 0; i < model_place_count; i++)
    c->words[model_places[i][0]] = (int64_t)(intptr_t)(c->words + model_places[i][1]);
  for (uint32_t i = 0; i < model_function_count; i++)
    c->words[model_functions[i].word] = (int64_t)(intptr_t)model_functions[i].address;
}

struct instance *model_new(void) {
  struct instance *c = calloc(1, sizeof *c);
  if (c && !(c->words = malloc(sizeof(int64_t) * model_words))) {
    free(c);
    return NULL;
  }
  if (c) model_reset(c);
  return c;
}

void model_free(struct instance *c) {
  if (!c) return;
  free(c->words);
  free(c->name);
  free(c);
}

void model_reset(struct instance *c) {
  memcpy(c->words, model_image, sizeof(int64_t) * model_words);
  point(c);
  c->time = 0.0;
  c->begun = c->written = c->failed = 0;
  c->stale = 1;
}

int64_t model_do(struct instance *c, enum operation operation, int64_t ns) {
  int64_t root = (int64_t)(intptr_t)(c->words + model_root);
  int64_t block[3] = {0, (int64_t)(intptr_t)&root, 1};
  int64_t answer = model_operate(block, operation, ns, c->time);
  if (answer == INT64_MIN) answer = FAILED; /* the model raised an error */
  if (answer == FAILED && (operation == BEGIN || operation == RUN || operation == EVENT)) c->failed = 1;
  return answer;
}

int model_begin(struct instance *c) {
  c->begun = 1;
  c->written = 0;
  c->stale = 1;
  return (int)model_do(c, BEGIN, 0);
}

static int settle(struct instance *c) {
  if (!c->written || !c->begun || c->exchange) return GOOD;
  c->written = 0;
  return (int)model_do(c, SETTLE, 0);
}

int model_run(struct instance *c, double until) {
  if (c->failed || !(until >= 0.0 && until <= LAST_S)) return FAILED;
  int answer = settle(c);
  if (answer != GOOD) return answer;
  answer = (int)model_do(c, RUN, (int64_t)(until * 1e9 + 0.5));
  c->time = until;
  c->stale = 1;
  return answer;
}

static double *at(struct instance *c, uint32_t word) { return (double *)(c->words + word); }

int model_set(struct instance *c, uint32_t reference, double value) {
  if (reference == 0 || reference >= model_variable_count) return FAILED;
  const struct variable *v = &model_variables[reference];
  int early = v->kind == STATE || v->kind == START;
  if (!(v->kind == INPUT || (early && !c->begun))) return FAILED;
  *at(c, v->place) = value;
  for (const uint32_t *word = model_also + v->also; *word; word++) *at(c, *word) = value;
  if (v->owner != NOBODY && c->begun) model_do(c, TOUCH, v->owner);
  c->written = c->stale = 1;
  return GOOD;
}

int model_get(struct instance *c, uint32_t reference, double *value) {
  if (reference >= model_variable_count) return FAILED;
  const struct variable *v = &model_variables[reference];
  int answer = GOOD;
  if (v->kind == TIME) {
    *value = c->time;
    return GOOD;
  }
  if (v->kind == DERIVATIVE) answer = (int)model_do(c, DERIVATIVES, 0);
  if (v->kind == INDICATOR) answer = (int)model_do(c, INDICATORS, 0);
  if (v->kind == COMPUTED && c->stale) {
    answer = settle(c);
    if (answer != FAILED && (c->exchange || !c->begun)) answer = (int)model_do(c, OUTPUTS, 0);
    c->stale = 0;
  }
  *value = *at(c, v->place);
  return answer == FAILED ? FAILED : GOOD;
}

/* Compute the values of `count` variables that follow each other in memory; read them. */
int model_vector(struct instance *c, enum operation operation, uint32_t first, double *into,
                 uint32_t count) {
  int answer = count ? (int)model_do(c, operation, 0) : GOOD;
  if (count) memcpy(into, at(c, first), sizeof(double) * count);
  return answer;
}

void model_set_states(struct instance *c, const double *states) {
  memcpy(at(c, model_first_state), states, sizeof(double) * model_states);
  c->stale = 1;
}

int model_event(struct instance *c, int *states_changed, int *next_defined, double *next) {
  double *states = at(c, model_first_state), *before = malloc(sizeof(double) * (model_states + 1));
  if (!before) return FAILED;
  memcpy(before, states, sizeof(double) * model_states);
  int answer = (int)model_do(c, EVENT, 0);
  *states_changed = memcmp(before, states, sizeof(double) * model_states) != 0;
  free(before);
  int64_t ns = model_do(c, NEXT, 0);
  *next_defined = ns != FAR && ns != FAILED;
  *next = *next_defined ? (double)ns / 1e9 : 0.0;
  c->written = 0;
  c->stale = 1;
  return answer;
}

struct saved {
  char token[40]; /* of the model to which the state belongs */
  double time;
  int64_t begun, written, exchange;
};

uint32_t model_saved_bytes(void) { return (uint32_t)(sizeof(struct saved) + sizeof(int64_t) * model_words); }

void model_save(const struct instance *c, void *into) {
  struct saved head = {"", c->time, c->begun, c->written, c->exchange};
  strncpy(head.token, model_token, sizeof head.token - 1);
  int64_t *words = (int64_t *)((char *)into + sizeof head);
  memcpy(into, &head, sizeof head);
  memcpy(words, c->words, sizeof(int64_t) * model_words);
  for (uint32_t i = 0; i < model_place_count; i++) words[model_places[i][0]] = 0;
  for (uint32_t i = 0; i < model_function_count; i++) words[model_functions[i].word] = 0;
}

int model_owns(const void *saved) {
  struct saved head;
  memcpy(&head, saved, sizeof head);
  return strncmp(head.token, model_token, sizeof head.token - 1) == 0;
}

void model_restore(struct instance *c, const void *from) {
  struct saved head;
  memcpy(&head, from, sizeof head);
  memcpy(c->words, (const char *)from + sizeof head, sizeof(int64_t) * model_words);
  point(c);
  c->time = head.time;
  c->begun = (int)head.begun;
  c->written = (int)head.written;
  c->failed = 0;
  c->stale = 1;
}

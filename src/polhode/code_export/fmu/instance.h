/* An instance of the model, as the functions of all versions of FMI work on it. */
#ifndef INSTANCE_H
#define INSTANCE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "binding.h"

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define EXPORT __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wunused-parameter"
#else
#define EXPORT
#endif

/* Part of a step within which a communication point lies on the grid of steps. */
#define ON_GRID 1e-9

typedef enum { OK, WARNING, DISCARD, ERROR, FATAL } status;
typedef enum { INSTANTIATED = 1, INITIALIZATION = 2, STEPPING = 4, TERMINATED = 8 } phase;
typedef uint32_t reference;
typedef const char *text;

/* All that an instance remembers; copies of it are states of the unit.
   is_stale: numbers have been set that the carry doesn't follow yet. */
typedef struct {
  uint64_t hash;
  double time;
  model_values values;
  model_carry carry;
  int32_t phase;
  int32_t is_stale;
} snapshot;

/* log, environment and name are the importer's, to report errors. */
typedef struct {
  snapshot now;
  model_outputs outputs;
  bool is_read, is_logging;
  void (*log)(void);
  void *environment;
  char name[64];
} instance;

/* Reports why a call fails, in the way of a version of FMI; returns the status. */
static status say(instance *m, status code, text message);

/* --- instances and phases ---------------------------------------------------------------------------------------- */

static status reset(instance *m) {
  memset(&m->now, 0, sizeof m->now);
  m->now.hash = model_model_hash();
  m->now.phase = INSTANTIATED;
  m->now.is_stale = 1;
  m->is_read = false;
  set_defaults(&m->now.values);
  return OK;
}

/* An instance; NULL, and the reason in the log, if the token is that of another unit or there is no memory. */
static instance *make_instance(text name, text token, bool is_logging, void *environment, void (*log)(void)) {
  instance *m = calloc(1, sizeof *m);
  if (!m) { return NULL; }
  m->environment = environment;
  m->log = log;
  m->is_logging = true;
  snprintf(m->name, sizeof m->name, "%s", name ? name : "");
  if (!token || strcmp(token, MODEL_TOKEN) != 0) {
    (void)say(m, ERROR, "The token is that of another unit.");
    free(m);
    return NULL;
  }
  m->is_logging = is_logging;
  (void)reset(m);
  return m;
}

static bool is_in(instance *m, int phases, text name) {
  if (m->now.phase & phases) { return true; }
  char message[128];
  snprintf(message, sizeof message, "%s can't be called in this state of the unit.", name);
  (void)say(m, ERROR, message);
  return false;
}

/* Lets the carry follow numbers that have been set. */
static void settle(instance *m) {
  if (!m->now.is_stale) { return; }
  if (m->now.phase <= INITIALIZATION) {
    (void)start_model(&m->now.values, m->now.time, &m->now.carry);
  } else {
    jump_model(&m->now.values, &m->now.carry);
  }
  m->now.is_stale = 0;
  m->is_read = false;
}

static status exit_initialization(instance *m) {
  settle(m);
  m->now.phase = STEPPING;
  return m->now.carry.result == 0 ? OK : say(m, ERROR, messages[m->now.carry.result]);
}

/* Steps until a time. Where that is within a step, the step ends there, and what the method remembers is rebuilt.
   Returns the result of the last step; after a failure time is that of the last good state. */
static int32_t advance(instance *m, double end) {
  settle(m);
  model_carry *carry = &m->now.carry;
  int32_t result = (int32_t)carry->result;
  while (result == 0 && end - carry->t > ON_GRID * MODEL_H_STEP) {
    const double left = end - carry->t, h = left < (1.0 - ON_GRID) * MODEL_H_STEP ? left : MODEL_H_STEP;
    if (fabs(carry->spacing - h) > ON_GRID * MODEL_H_STEP) { resize_model(&m->now.values, h, carry); }
    result = step_model(&m->now.values, carry);
  }
  m->now.time = result == 0 ? end : carry->t;
  m->is_read = false;
  return result;
}

/* A communication step. */
static status do_step(instance *m, double time, double size) {
  if (!(size > 0.0)) { return say(m, ERROR, "The communication step must be positive."); }
  if (fabs(time - m->now.time) > ON_GRID * MODEL_H_STEP + 1e-12 * fabs(time)) {
    return say(m, ERROR, "The communication point isn't the end of the step before.");
  }
  const int32_t result = advance(m, time + size);
  return result == 0 ? OK : say(m, DISCARD, messages[result]);
}

/* --- variables --------------------------------------------------------------------------------------------------- */

static double *numbers_of(instance *m, const variable *v) {
  return (v->kind == OUTPUT ? (double *)&m->outputs : (double *)&m->now.values) + v->offset;
}

/* The numbers of a variable, to be read; NULL if there are none now. */
static const double *readable(instance *m, reference r, size_t *size) {
  *size = 1;
  if (r == 0) { return &m->now.time; }
  if (r > MODEL_VARIABLES) { return NULL; }
  const variable *v = &variables[r - 1];
  if (v->kind == OUTPUT) {
    if (m->now.phase == INSTANTIATED) { return NULL; }
    settle(m);
    if (!m->is_read) { read_model(&m->now.values, &m->now.carry, &m->outputs); }
    m->is_read = true;
  }
  *size = v->size;
  return numbers_of(m, v);
}

/* The numbers of a variable, to be set; NULL if they can't be set now. */
static double *writable(instance *m, reference r, size_t *size) {
  if (r == 0 || r > MODEL_VARIABLES) { return NULL; }
  const variable *v = &variables[r - 1];
  const int before = INSTANTIATED | INITIALIZATION;
  const int allowed = v->kind == PARAMETER ? before : v->kind == INPUT ? before | STEPPING : 0;
  *size = v->size;
  return m->now.phase & allowed ? numbers_of(m, v) : NULL;
}

static status get_numbers(instance *m, const reference references[], size_t count, double values[], size_t total) {
  size_t at = 0, size;
  for (size_t k = 0; k < count; ++k, at += size) {
    const double *numbers = readable(m, references[k], &size);
    if (!numbers) { return say(m, ERROR, "There is no such variable, or it has no value yet."); }
    if (size > total - at) { return say(m, ERROR, "There are fewer values than the variables have."); }
    memcpy(values + at, numbers, size * sizeof *values);
  }
  return at == total ? OK : say(m, ERROR, "There are more values than the variables have.");
}

static status set_numbers(instance *m, const reference references[], size_t count, const double values[],
                          size_t total) {
  size_t at = 0, size;
  for (size_t k = 0; k < count; ++k, at += size) {
    double *place = writable(m, references[k], &size);
    if (!place) { return say(m, ERROR, "There is no such variable, or it can't be set in this state of the unit."); }
    if (size > total - at) { return say(m, ERROR, "There are fewer values than the variables have."); }
    if (memcmp(place, values + at, size * sizeof *values) != 0) {
      memcpy(place, values + at, size * sizeof *values);
      m->now.is_stale = 1;
      m->is_read = false;
    }
  }
  return at == total ? OK : say(m, ERROR, "There are more values than the variables have.");
}

/* --- states of the unit ------------------------------------------------------------------------------------------ */

static status copy_bytes(instance *m, const void *bytes, void **state) {
  if (!*state) { *state = malloc(sizeof(snapshot)); }
  if (!*state) { return say(m, ERROR, "There is no memory for a state."); }
  memcpy(*state, bytes, sizeof(snapshot));
  return OK;
}

static status set_state(instance *m, const void *state) {
  if (!state) { return say(m, ERROR, "There is no state."); }
  memcpy(&m->now, state, sizeof(snapshot));
  m->is_read = false;
  return OK;
}

static status free_state(void **state) {
  free(*state);
  *state = NULL;
  return OK;
}

static status serialize(instance *m, const void *state, void *bytes, size_t size) {
  if (!state || size != sizeof(snapshot)) { return say(m, ERROR, "The size isn't that of a state."); }
  memcpy(bytes, state, size);
  return OK;
}

static status deserialize(instance *m, const void *bytes, size_t size, void **state) {
  uint64_t hash = 0;
  if (size == sizeof(snapshot)) { memcpy(&hash, bytes, sizeof hash); }
  if (hash != model_model_hash()) { return say(m, ERROR, "These bytes are no state of this unit."); }
  return copy_bytes(m, bytes, state);
}

#endif

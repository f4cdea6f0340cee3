/* An instance of the model, as the functions of FMI work on it. */
#ifndef INSTANCE_H
#define INSTANCE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "binding.h"

/* Part of a step within which a communication point lies on the grid of steps. */
#define ON_GRID 1e-9

typedef enum { INSTANTIATED = 1, INITIALIZATION = 2, STEPPING = 4, TERMINATED = 8 } phase;

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

typedef struct {
  snapshot now;
  model_outputs outputs;
  bool is_read;
  void *environment;
} instance;

static void reset(instance *m) {
  memset(&m->now, 0, sizeof m->now);
  m->now.hash = model_model_hash();
  m->now.phase = INSTANTIATED;
  m->now.is_stale = 1;
  m->is_read = false;
  set_defaults(&m->now.values);
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

static double *numbers(instance *m, const variable *v) {
  return (v->kind == OUTPUT ? (double *)&m->outputs : (double *)&m->now.values) + v->offset;
}

/* The numbers of a variable, to be read; NULL if there are none now. */
static const double *values_of(instance *m, uint32_t reference, size_t *size) {
  *size = 1;
  if (reference == 0) { return &m->now.time; }
  if (reference > MODEL_VARIABLES) { return NULL; }
  const variable *v = &variables[reference - 1];
  if (v->kind == OUTPUT) {
    if (m->now.phase == INSTANTIATED) { return NULL; }
    settle(m);
    if (!m->is_read) { read_model(&m->now.values, &m->now.carry, &m->outputs); }
    m->is_read = true;
  }
  *size = v->size;
  return numbers(m, v);
}

/* The numbers of a variable, to be set; NULL if they can't be set now. */
static double *place_of(instance *m, uint32_t reference, size_t *size) {
  if (reference == 0 || reference > MODEL_VARIABLES) { return NULL; }
  const variable *v = &variables[reference - 1];
  const int allowed = v->kind == PARAMETER ? INSTANTIATED | INITIALIZATION
                      : v->kind == INPUT   ? INSTANTIATED | INITIALIZATION | STEPPING
                                           : 0;
  *size = v->size;
  return m->now.phase & allowed ? numbers(m, v) : NULL;
}

static void set(instance *m, double *place, const double *values, size_t size) {
  if (memcmp(place, values, size * sizeof *values) != 0) {
    memcpy(place, values, size * sizeof *values);
    m->now.is_stale = 1;
    m->is_read = false;
  }
}

/* Steps until a time. Where that is within a step, the step ends there, and what the method remembers is rebuilt.
   Returns the result of the last step; after a failure time is that of the last good state. */
static int32_t advance(instance *m, double end) {
  settle(m);
  model_carry *carry = &m->now.carry;
  int32_t result = (int32_t)carry->result;
  while (result == 0 && end - carry->t > ON_GRID * MODEL_H_STEP) {
    const double left = end - carry->t, h = left < (1.0 - ON_GRID) * MODEL_H_STEP ? left : MODEL_H_STEP;
    if (carry->spacing != h) { resize_model(&m->now.values, h, carry); }
    result = step_model(&m->now.values, carry);
  }
  m->now.time = result == 0 ? end : carry->t;
  m->is_read = false;
  return result;
}

#endif

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

/* How far states may be from their space, if importers name no tolerance, before they are put back. */
#define DISTANCE 1e-6

typedef enum { OK, WARNING, DISCARD, ERROR, FATAL } status;
typedef enum { INSTANTIATED = 1, INITIALIZATION = 2, STEPPING = 4, TERMINATED = 8, EVENT = 16, CONTINUOUS = 32 } phase;
#define BEFORE (INSTANTIATED | INITIALIZATION)
#define RUNNING (STEPPING | EVENT | CONTINUOUS)
typedef uint32_t reference;
typedef const char *text;

/* All that an instance remembers; copies of it are states of the unit.
   distance: what importers allow states. is_stale: numbers have been set that the carry doesn't follow yet. */
typedef struct {
  uint64_t hash;
  double time, distance;
  model_values values;
  model_carry carry;
  int32_t phase;
  int32_t is_stale;
} snapshot;

/* What follows from the carry: of each kind, whether it is that of now.
   is_for_exchange: the importer solves the equations.
   log, environment and name are the importer's, to report errors. */
typedef struct {
  snapshot now;
  model_outputs outputs;
  double rates[MODEL_STATES + 1], indicators[MODEL_INDICATORS + 1];
  bool is_read[INDICATOR + 1], is_for_exchange, is_logging;
  void (*log)(void);
  void *environment;
  char name[64];
} instance;

/* Reports why a call fails, in the way of a version of FMI; returns the status. */
static status say(instance *m, status code, text message);

/* --- instances and phases ---------------------------------------------------------------------------------------- */

/* What follows from the carry has to be computed again. */
static void forget(instance *m) { memset(m->is_read, 0, sizeof m->is_read); }

static status reset(instance *m) {
  memset(&m->now, 0, sizeof m->now);
  m->now.hash = model_model_hash();
  m->now.phase = INSTANTIATED;
  m->now.is_stale = 1;
  m->now.distance = DISTANCE;
  forget(m);
  set_defaults(&m->now.values);
  return OK;
}

/* An instance; NULL, and the reason in the log, if the token is that of another unit, if the unit has no equations for
   importers that solve them, or if there is no memory. */
static instance *make_instance(text name, text token, bool is_for_exchange, bool is_logging, void *environment,
                               void (*log)(void)) {
  instance *m = calloc(1, sizeof *m);
  if (!m) { return NULL; }
  m->environment = environment;
  m->log = log;
  m->is_logging = true;
  m->is_for_exchange = is_for_exchange;
  snprintf(m->name, sizeof m->name, "%s", name ? name : "");
  const bool is_other = !token || strcmp(token, MODEL_TOKEN) != 0;
  if (is_other || (is_for_exchange && MODEL_STATES == 0)) {
    (void)say(m, ERROR, is_other ? "The token is that of another unit." : "This unit is for co-simulation only.");
    free(m);
    return NULL;
  }
  m->is_logging = is_logging;
  (void)reset(m);
  return m;
}

static status set_logging(instance *m, bool on) {
  m->is_logging = on;
  return OK;
}

static bool is_in(instance *m, int phases, text name) {
  if (m->now.phase & phases) { return true; }
  char message[128];
  snprintf(message, sizeof message, "%s can't be called in this state of the unit.", name);
  (void)say(m, ERROR, message);
  return false;
}

/* Lets the carry follow numbers that have been set. The state alone is what importers solve for, without what a method
   remembers. */
static void settle(instance *m) {
  if (!m->now.is_stale) { return; }
  if (m->now.phase & BEFORE) {
    (void)start_model(&m->now.values, m->now.time, &m->now.carry);
  } else if (!m->is_for_exchange) {
    jump_model(&m->now.values, &m->now.carry);
  }
  m->now.is_stale = 0;
  forget(m);
}

/* Goes from one of some phases to another. */
static status enter(instance *m, int from, int to, text name) {
  if (!is_in(m, from, name)) { return ERROR; }
  m->now.phase = to;
  return OK;
}

static void set_start(instance *m, double time, bool has_tolerance, double tolerance) {
  m->now.time = time;
  m->now.is_stale = 1;
  if (has_tolerance && tolerance > 0.0) { m->now.distance = 10.0 * tolerance; }
}

static status exit_initialization(instance *m, text name) {
  if (!is_in(m, INITIALIZATION, name)) { return ERROR; }
  settle(m);
  m->now.phase = m->is_for_exchange ? EVENT : STEPPING;
  return m->now.carry.result == 0 ? OK : say(m, ERROR, messages[m->now.carry.result]);
}

/* --- steps ------------------------------------------------------------------------------------------------------- */

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
  forget(m);
  return result;
}

/* A communication step. */
static status do_step(instance *m, double time, double size, text name) {
  if (!is_in(m, STEPPING, name)) { return ERROR; }
  if (!(size > 0.0)) { return say(m, ERROR, "The communication step must be positive."); }
  if (fabs(time - m->now.time) > ON_GRID * MODEL_H_STEP + 1e-12 * fabs(time)) {
    return say(m, ERROR, "The communication point isn't the end of the step before.");
  }
  const int32_t result = advance(m, time + size);
  return result == 0 ? OK : say(m, DISCARD, messages[result]);
}

/* --- equations, which importers solve ---------------------------------------------------------------------------- */

static const double *values_of(const instance *m) { return (const double *)&m->now.values; }

static status set_time(instance *m, double time, text name) {
  if (!is_in(m, EVENT | CONTINUOUS, name)) { return ERROR; }
  m->now.time = m->now.carry.t = time;
  forget(m);
  return OK;
}

static status set_states(instance *m, const double states[], size_t count, text name) {
  if (!is_in(m, CONTINUOUS, name)) { return ERROR; }
  if (count != MODEL_STATES) { return say(m, ERROR, "This isn't the number of continuous states."); }
  memcpy(&m->now.carry.state, states, count * sizeof *states);
  forget(m);
  return OK;
}

static status get_nominals(instance *m, double values[], size_t count) {
  if (count != MODEL_STATES) { return say(m, ERROR, "This isn't the number of continuous states."); }
  memcpy(values, nominals, count * sizeof *values);
  return OK;
}

/* After a step of the importer's solver: whether it must be interrupted to put the state back on its space. */
static status complete_step(instance *m, bool *has_event, text name) {
  double distance = 0.0;
  *has_event = false;
  if (!is_in(m, CONTINUOUS, name)) { return ERROR; }
  const int32_t result = equations_inspect(values_of(m), &m->now.carry, &distance);
  *has_event = !(distance <= m->now.distance);
  return result == 0 ? OK : say(m, ERROR, messages[result]);
}

/* What happens at events, and whether that changes the state or ends the run. */
static status update(instance *m, bool *has_changed, bool *is_final, text name) {
  double distance = 0.0;
  int32_t happened = 0;
  *has_changed = *is_final = false;
  if (!is_in(m, EVENT, name)) { return ERROR; }
  settle(m);
  (void)equations_inspect(values_of(m), &m->now.carry, &distance);
  *has_changed = distance > 0.1 * m->now.distance;
  if (*has_changed) { equations_project(values_of(m), &m->now.carry); }
  const int32_t result = equations_respond(values_of(m), &m->now.carry, &happened);
  *has_changed = *has_changed || happened != 0;
  *is_final = result != 0;
  forget(m);
  if (*is_final) { (void)say(m, WARNING, messages[result]); }
  return OK;
}

/* --- variables --------------------------------------------------------------------------------------------------- */

static double *numbers_of(instance *m, const variable *v) {
  switch (v->kind) {
  case OUTPUT: return (double *)&m->outputs + v->offset;
  case STATE: return (double *)&m->now.carry.state + v->offset;
  case RATE: return m->rates + v->offset;
  case INDICATOR: return m->indicators + v->offset;
  default: return (double *)&m->now.values + v->offset;
  }
}

/* Computes what follows from the carry. */
static void read(instance *m, causality kind) {
  settle(m);
  if (m->is_read[kind]) { return; }
  if (kind == OUTPUT) { read_model(&m->now.values, &m->now.carry, &m->outputs); }
  if (kind == RATE) { equations_rates(values_of(m), &m->now.carry, m->rates); }
  if (kind == INDICATOR) { equations_indicate(values_of(m), &m->now.carry, m->indicators); }
  m->is_read[kind] = true;
}

/* All numbers of one kind. */
static status get_all(instance *m, causality kind, double values[], size_t count, size_t expected, text name) {
  static const variable all[] = {{STATE, 0, 0}, {RATE, 0, 0}, {INDICATOR, 0, 0}};
  if (!is_in(m, INITIALIZATION | EVENT | CONTINUOUS, name)) { return ERROR; }
  if (count != expected) { return say(m, ERROR, "This isn't the number of values."); }
  read(m, kind);
  memcpy(values, numbers_of(m, &all[kind - STATE]), count * sizeof *values);
  return OK;
}

/* The numbers of a variable, to be read; NULL if there are none now. */
static const double *readable(instance *m, reference r, size_t *size) {
  *size = 1;
  if (r == 0) { return &m->now.time; }
  if (r > MODEL_VARIABLES) { return NULL; }
  const variable *v = &variables[r - 1];
  if (v->kind >= OUTPUT) {
    if (m->now.phase == INSTANTIATED) { return NULL; }
    read(m, v->kind);
  }
  *size = v->size;
  return numbers_of(m, v);
}

/* The numbers of a variable, to be set; NULL if they can't be set now. */
static double *writable(instance *m, reference r, size_t *size) {
  if (r == 0 || r > MODEL_VARIABLES) { return NULL; }
  const variable *v = &variables[r - 1];
  const int allowed = v->kind == PARAMETER ? BEFORE : v->kind == INPUT ? BEFORE | RUNNING : 0;
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
      forget(m);
    }
  }
  return at == total ? OK : say(m, ERROR, "There are more values than the variables have.");
}

/* --- derivatives ------------------------------------------------------------------------------------------------- */

/* Numbers that others depend on, and those that depend on them, or changes of them. */
typedef struct {
  model_values values;
  double time, states[MODEL_STATES + 1];
} arguments;
typedef struct {
  double rates[MODEL_STATES + 1];
  model_outputs outputs;
} results;

/* The place of a variable's numbers among them; NULL if they aren't there. */
typedef double *(*place)(void *all, reference, size_t *size);

static double *place_of_argument(void *all, reference r, size_t *size) {
  arguments *a = all;
  *size = 1;
  if (r == 0) { return &a->time; }
  if (r > MODEL_VARIABLES) { return NULL; }
  const variable *v = &variables[r - 1];
  *size = v->size;
  return v->kind == STATE ? a->states + v->offset : v->kind < OUTPUT ? (double *)&a->values + v->offset : NULL;
}
static double *place_of_result(void *all, reference r, size_t *size) {
  results *a = all;
  if (r == 0 || r > MODEL_VARIABLES) { return NULL; }
  const variable *v = &variables[r - 1];
  *size = v->size;
  return v->kind == RATE ? a->rates + v->offset : v->kind == OUTPUT ? (double *)&a->outputs + v->offset : NULL;
}

/* Adds seeds of variables; false if there are others. */
static bool add(place of, void *all, const reference r[], size_t count, const double seed[], size_t total) {
  size_t at = 0, size = 0;
  for (size_t k = 0; k < count; ++k, at += size) {
    double *numbers = of(all, r[k], &size);
    if (!numbers || size > total - at) { return false; }
    for (size_t n = 0; n < size; ++n) { numbers[n] += seed[at + n]; }
  }
  return at == total;
}
/* Copies sensitivities of variables; false if there are others. */
static bool extract(place of, void *all, const reference r[], size_t count, double sensitivity[], size_t total) {
  size_t at = 0, size = 0;
  for (size_t k = 0; k < count; ++k, at += size) {
    const double *numbers = of(all, r[k], &size);
    if (!numbers || size > total - at) { return false; }
    memcpy(sensitivity + at, numbers, size * sizeof *numbers);
  }
  return at == total;
}

/* Which way derivatives go. */
typedef enum { ALONG, BACK } direction;

/* Sensitivities of some variables from the seeds of others. */
static status differentiate(instance *m, direction d, const reference unknowns[], size_t n, const reference knowns[],
                            size_t k, const double seed[], size_t seeds, double sensitivity[], size_t count, text name) {
  static const char wrong[] = "Derivatives are those of rates and outputs with respect to parameters, inputs, time and "
                              "states, with as many values as the variables have.";
  arguments before;
  results after;
  if (!(d == ALONG ? MODEL_ALONG : MODEL_BACK)) { return say(m, ERROR, "This unit has no such derivatives."); }
  if (!is_in(m, RUNNING, name)) { return ERROR; }
  settle(m);
  memset(&before, 0, sizeof before);
  memset(&after, 0, sizeof after);
  const double *values = values_of(m);
  const model_carry *carry = &m->now.carry;
  bool is_right = false;
  if (d == ALONG && add(place_of_argument, &before, knowns, k, seed, seeds)) {
    equations_along(values, carry, (const double *)&before.values, before.time, before.states, after.rates,
                    (double *)&after.outputs);
    is_right = extract(place_of_result, &after, unknowns, n, sensitivity, count);
  } else if (d == BACK && add(place_of_result, &after, unknowns, n, seed, seeds)) {
    equations_back(values, carry, after.rates, (const double *)&after.outputs, (double *)&before.values, &before.time,
                   before.states);
    is_right = extract(place_of_argument, &before, knowns, k, sensitivity, count);
  }
  return is_right ? OK : say(m, ERROR, wrong);
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
  forget(m);
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

/* --- the same in all versions ------------------------------------------------------------------------------------ */

/* Functions for states of the unit, with the names that a version has for them. */
#define UNIT_STATES(Get, Set, Free, Size, Serialize, Deserialize, byte) \
  EXPORT status Get(instance *m, void **state) { return copy_bytes(m, &m->now, state); } \
  EXPORT status Set(instance *m, void *state) { return set_state(m, state); } \
  EXPORT status Free(instance *m, void **state) { return free_state(state); } \
  EXPORT status Size(instance *m, void *state, size_t *size) { \
    *size = sizeof(snapshot); \
    return OK; \
  } \
  EXPORT status Serialize(instance *m, void *state, byte bytes[], size_t size) { \
    return serialize(m, state, bytes, size); \
  } \
  EXPORT status Deserialize(instance *m, const byte bytes[], size_t size, void **state) { \
    return deserialize(m, bytes, size, state); \
  }

/* Functions that this unit doesn't offer, and variables that it hasn't. */
#define NONE(name, ...) \
  EXPORT status name(instance *m, __VA_ARGS__) { return say(m, ERROR, #name " isn't offered by this unit."); }
#define NONE_ALONE(name) \
  EXPORT status name(instance *m) { return say(m, ERROR, #name " isn't offered by this unit."); }

static status no_variables(instance *m, size_t count, text kind) {
  char message[80];
  snprintf(message, sizeof message, "This unit has no variables of type %s.", kind);
  return count ? say(m, ERROR, message) : OK;
}

#endif

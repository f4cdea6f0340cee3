/* The functions of FMI 3.0 for co-simulation; those that this unit doesn't offer return an error. */
#include <stdio.h>
#include <stdlib.h>
#include "instance.h"

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define EXPORT __attribute__((visibility("default")))
#pragma GCC diagnostic ignored "-Wunused-parameter"
#else
#define EXPORT
#endif

typedef enum { OK, WARNING, DISCARD, ERROR, FATAL } status;
typedef uint32_t reference;
typedef const char *text;
typedef const uint8_t *binary;
typedef void (*log_function)(void *environment, status, text category, text message);
typedef void (*update_function)(void *, double, bool, bool, bool, bool, bool *, double *);
typedef void (*plain_function)(void);

/* An instance with what reports its errors. */
typedef struct {
  instance model;
  log_function log;
  bool is_logging;
} unit;

static status say(unit *u, status code, text message) {
  if (u->log && u->is_logging) { u->log(u->model.environment, code, "logStatusError", message); }
  return code;
}

static bool is_in(unit *u, int phases, text name) {
  if (u->model.now.phase & phases) { return true; }
  char message[128];
  snprintf(message, sizeof message, "%s can't be called in this state of the unit.", name);
  (void)say(u, ERROR, message);
  return false;
}

/* --- instances --------------------------------------------------------------------------------------------------- */

EXPORT text fmi3GetVersion(void) { return "3.0"; }

EXPORT void *fmi3InstantiateCoSimulation(text name, text token, text resources, bool visible, bool logging,
                                         bool events, bool early, const reference required[], size_t count,
                                         void *environment, log_function log, update_function update) {
  if (!token || strcmp(token, MODEL_TOKEN) != 0 || events) {
    text message = events ? "This unit has no event mode." : "The instantiation token is that of another unit.";
    if (log) { log(environment, ERROR, "logStatusError", message); }
    return NULL;
  }
  unit *u = calloc(1, sizeof *u);
  if (!u) { return NULL; }
  u->model.environment = environment;
  u->log = log;
  u->is_logging = logging;
  reset(&u->model);
  return u;
}
EXPORT void *fmi3InstantiateModelExchange(text name, text token, text resources, bool visible, bool logging,
                                          void *environment, log_function log) {
  return NULL;
}
EXPORT void *fmi3InstantiateScheduledExecution(text name, text token, text resources, bool visible, bool logging,
                                               void *environment, log_function log, plain_function update,
                                               plain_function lock, plain_function unlock) {
  return NULL;
}
EXPORT void fmi3FreeInstance(void *u) { free(u); }
EXPORT status fmi3Reset(void *u) {
  reset(&((unit *)u)->model);
  return OK;
}
EXPORT status fmi3SetDebugLogging(void *u, bool on, size_t count, const text categories[]) {
  ((unit *)u)->is_logging = on;
  return OK;
}

/* --- phases ------------------------------------------------------------------------------------------------------ */

EXPORT status fmi3EnterInitializationMode(void *u, bool has_tolerance, double tolerance, double start, bool has_stop,
                                          double stop) {
  instance *m = &((unit *)u)->model;
  if (!is_in(u, INSTANTIATED, "fmi3EnterInitializationMode")) { return ERROR; }
  m->now.time = start;
  m->now.phase = INITIALIZATION;
  return OK;
}
EXPORT status fmi3ExitInitializationMode(void *u) {
  instance *m = &((unit *)u)->model;
  if (!is_in(u, INITIALIZATION, "fmi3ExitInitializationMode")) { return ERROR; }
  settle(m);
  m->now.phase = STEPPING;
  return m->now.carry.result == 0 ? OK : say(u, ERROR, messages[m->now.carry.result]);
}
EXPORT status fmi3Terminate(void *u) {
  if (!is_in(u, STEPPING, "fmi3Terminate")) { return ERROR; }
  ((unit *)u)->model.now.phase = TERMINATED;
  return OK;
}
EXPORT status fmi3DoStep(void *u, double time, double size, bool is_final, bool *event, bool *terminate, bool *early,
                         double *last) {
  instance *m = &((unit *)u)->model;
  *event = *terminate = *early = false;
  *last = m->now.time;
  if (!is_in(u, STEPPING, "fmi3DoStep")) { return ERROR; }
  if (!(size > 0.0)) { return say(u, ERROR, "The communication step must be positive."); }
  if (fabs(time - m->now.time) > ON_GRID * MODEL_H_STEP + 1e-12 * fabs(time)) {
    return say(u, ERROR, "The communication point isn't the end of the step before.");
  }
  const int32_t result = advance(m, time + size);
  *last = m->now.time;
  if (result == 0) { return OK; }
  *terminate = true;
  return say(u, DISCARD, messages[result]);
}

/* --- variables --------------------------------------------------------------------------------------------------- */

EXPORT status fmi3GetFloat64(void *u, const reference references[], size_t count, double values[], size_t total) {
  size_t at = 0;
  for (size_t k = 0; k < count; ++k) {
    size_t size;
    const double *numbers = values_of(&((unit *)u)->model, references[k], &size);
    if (!numbers) { return say(u, ERROR, "There is no such variable, or it has no value yet."); }
    if (size > total - at) { return say(u, ERROR, "There are fewer values than the variables have."); }
    memcpy(values + at, numbers, size * sizeof *values);
    at += size;
  }
  return at == total ? OK : say(u, ERROR, "There are more values than the variables have.");
}
EXPORT status fmi3SetFloat64(void *u, const reference references[], size_t count, const double values[], size_t total) {
  size_t at = 0;
  for (size_t k = 0; k < count; ++k) {
    size_t size;
    double *place = place_of(&((unit *)u)->model, references[k], &size);
    if (!place) { return say(u, ERROR, "There is no such variable, or it can't be set in this state of the unit."); }
    if (size > total - at) { return say(u, ERROR, "There are fewer values than the variables have."); }
    set(&((unit *)u)->model, place, values + at, size);
    at += size;
  }
  return at == total ? OK : say(u, ERROR, "There are more values than the variables have.");
}

/* --- states of the unit ------------------------------------------------------------------------------------------ */

EXPORT status fmi3GetFMUState(void *u, void **state) {
  if (!*state) { *state = malloc(sizeof(snapshot)); }
  if (!*state) { return say(u, ERROR, "There is no memory for a state."); }
  memcpy(*state, &((unit *)u)->model.now, sizeof(snapshot));
  return OK;
}
EXPORT status fmi3SetFMUState(void *u, void *state) {
  if (!state) { return say(u, ERROR, "There is no state."); }
  memcpy(&((unit *)u)->model.now, state, sizeof(snapshot));
  ((unit *)u)->model.is_read = false;
  return OK;
}
EXPORT status fmi3FreeFMUState(void *u, void **state) {
  free(*state);
  *state = NULL;
  return OK;
}
EXPORT status fmi3SerializedFMUStateSize(void *u, void *state, size_t *size) {
  *size = sizeof(snapshot);
  return OK;
}
EXPORT status fmi3SerializeFMUState(void *u, void *state, uint8_t bytes[], size_t size) {
  if (!state || size != sizeof(snapshot)) { return say(u, ERROR, "The size isn't that of a state."); }
  memcpy(bytes, state, size);
  return OK;
}
EXPORT status fmi3DeserializeFMUState(void *u, const uint8_t bytes[], size_t size, void **state) {
  uint64_t hash;
  if (size == sizeof(snapshot)) { memcpy(&hash, bytes, sizeof hash); }
  if (size != sizeof(snapshot) || hash != model_model_hash()) {
    return say(u, ERROR, "These bytes are no state of this unit.");
  }
  if (!*state) { *state = malloc(size); }
  if (!*state) { return say(u, ERROR, "There is no memory for a state."); }
  memcpy(*state, bytes, size);
  return OK;
}

/* --- what this unit doesn't offer -------------------------------------------------------------------------------- */

#define NONE(name, ...) \
  EXPORT status name(void *u, __VA_ARGS__) { return say(u, ERROR, #name " isn't offered by this unit."); }
#define NONE_ALONE(name) \
  EXPORT status name(void *u) { return say(u, ERROR, #name " isn't offered by this unit."); }
#define NO_VARIABLES(name, type) \
  EXPORT status fmi3Get##name(void *u, const reference r[], size_t count, type values[], size_t total) { \
    return count ? say(u, ERROR, "This unit has no variables of type " #name ".") : OK; \
  } \
  EXPORT status fmi3Set##name(void *u, const reference r[], size_t count, const type values[], size_t total) { \
    return count ? say(u, ERROR, "This unit has no variables of type " #name ".") : OK; \
  }

NO_VARIABLES(Float32, float)
NO_VARIABLES(Int8, int8_t)
NO_VARIABLES(UInt8, uint8_t)
NO_VARIABLES(Int16, int16_t)
NO_VARIABLES(UInt16, uint16_t)
NO_VARIABLES(Int32, int32_t)
NO_VARIABLES(UInt32, uint32_t)
NO_VARIABLES(Int64, int64_t)
NO_VARIABLES(UInt64, uint64_t)
NO_VARIABLES(Boolean, bool)
NO_VARIABLES(String, text)
NONE(fmi3GetBinary, const reference r[], size_t count, size_t sizes[], binary values[], size_t total)
NONE(fmi3SetBinary, const reference r[], size_t count, const size_t sizes[], const binary values[], size_t total)
NONE(fmi3GetClock, const reference r[], size_t count, bool values[])
NONE(fmi3SetClock, const reference r[], size_t count, const bool values[])

NONE(fmi3GetNumberOfVariableDependencies, reference r, size_t *count)
NONE(fmi3GetVariableDependencies, reference r, size_t elements[], reference independents[], size_t others[],
     int kinds[], size_t count)
NONE(fmi3GetDirectionalDerivative, const reference unknowns[], size_t n, const reference knowns[], size_t k,
     const double seed[], size_t seeds, double sensitivity[], size_t count)
NONE(fmi3GetAdjointDerivative, const reference unknowns[], size_t n, const reference knowns[], size_t k,
     const double seed[], size_t seeds, double sensitivity[], size_t count)
NONE(fmi3GetOutputDerivatives, const reference r[], size_t count, const int32_t orders[], double values[],
     size_t total)

NONE_ALONE(fmi3EnterConfigurationMode)
NONE_ALONE(fmi3ExitConfigurationMode)
NONE_ALONE(fmi3EnterEventMode)
NONE_ALONE(fmi3EnterStepMode)
NONE_ALONE(fmi3EnterContinuousTimeMode)
NONE_ALONE(fmi3EvaluateDiscreteStates)
NONE(fmi3UpdateDiscreteStates, bool *update, bool *terminate, bool *nominals, bool *states, bool *defined, double *next)
NONE(fmi3CompletedIntegratorStep, bool is_final, bool *event, bool *terminate)
NONE(fmi3SetTime, double time)
NONE(fmi3SetContinuousStates, const double states[], size_t count)
NONE(fmi3GetContinuousStateDerivatives, double derivatives[], size_t count)
NONE(fmi3GetEventIndicators, double indicators[], size_t count)
NONE(fmi3GetContinuousStates, double states[], size_t count)
NONE(fmi3GetNominalsOfContinuousStates, double nominals[], size_t count)
NONE(fmi3GetNumberOfEventIndicators, size_t *count)
NONE(fmi3GetNumberOfContinuousStates, size_t *count)

NONE(fmi3GetIntervalDecimal, const reference r[], size_t count, double intervals[], int qualifiers[])
NONE(fmi3GetIntervalFraction, const reference r[], size_t count, uint64_t counters[], uint64_t resolutions[],
     int qualifiers[])
NONE(fmi3GetShiftDecimal, const reference r[], size_t count, double shifts[])
NONE(fmi3GetShiftFraction, const reference r[], size_t count, uint64_t counters[], uint64_t resolutions[])
NONE(fmi3SetIntervalDecimal, const reference r[], size_t count, const double intervals[])
NONE(fmi3SetIntervalFraction, const reference r[], size_t count, const uint64_t counters[],
     const uint64_t resolutions[])
NONE(fmi3SetShiftDecimal, const reference r[], size_t count, const double shifts[])
NONE(fmi3SetShiftFraction, const reference r[], size_t count, const uint64_t counters[], const uint64_t resolutions[])
NONE(fmi3ActivateModelPartition, reference clock, double time)

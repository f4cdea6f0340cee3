/* The functions of FMI 3.0 for co-simulation; those that this unit doesn't offer return an error. */
#include "instance.h"

typedef const uint8_t *binary;
typedef void (*log_function)(void *environment, status, text category, text message);
typedef void (*update_function)(void *, double, bool, bool, bool, bool, bool *, double *);
typedef void (*plain_function)(void);

static status say(instance *m, status code, text message) {
  if (m->log && m->is_logging) { ((log_function)m->log)(m->environment, code, "logStatusError", message); }
  return code;
}

/* --- instances and phases ---------------------------------------------------------------------------------------- */

EXPORT text fmi3GetVersion(void) { return "3.0"; }

EXPORT void *fmi3InstantiateCoSimulation(text name, text token, text resources, bool visible, bool logging,
                                         bool events, bool early, const reference required[], size_t count,
                                         void *environment, log_function log, update_function update) {
  instance *m = make_instance(name, token, logging, environment, (plain_function)log);
  if (m && events) {
    (void)say(m, ERROR, "This unit has no event mode.");
    free(m);
    return NULL;
  }
  return m;
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
EXPORT void fmi3FreeInstance(instance *m) { free(m); }
EXPORT status fmi3Reset(instance *m) { return reset(m); }
EXPORT status fmi3SetDebugLogging(instance *m, bool on, size_t count, const text categories[]) {
  m->is_logging = on;
  return OK;
}
EXPORT status fmi3EnterInitializationMode(instance *m, bool has_tolerance, double tolerance, double start,
                                          bool has_stop, double stop) {
  if (!is_in(m, INSTANTIATED, "fmi3EnterInitializationMode")) { return ERROR; }
  m->now.time = start;
  m->now.phase = INITIALIZATION;
  return OK;
}
EXPORT status fmi3ExitInitializationMode(instance *m) {
  return is_in(m, INITIALIZATION, "fmi3ExitInitializationMode") ? exit_initialization(m) : ERROR;
}
EXPORT status fmi3Terminate(instance *m) {
  if (!is_in(m, STEPPING, "fmi3Terminate")) { return ERROR; }
  m->now.phase = TERMINATED;
  return OK;
}
EXPORT status fmi3DoStep(instance *m, double time, double size, bool is_final, bool *event, bool *terminate,
                         bool *early, double *last) {
  *event = *early = *terminate = false;
  const status code = is_in(m, STEPPING, "fmi3DoStep") ? do_step(m, time, size) : ERROR;
  *terminate = code == DISCARD;
  *last = m->now.time;
  return code;
}

/* --- variables and states ---------------------------------------------------------------------------------------- */

EXPORT status fmi3GetFloat64(instance *m, const reference references[], size_t count, double values[], size_t total) {
  return get_numbers(m, references, count, values, total);
}
EXPORT status fmi3SetFloat64(instance *m, const reference references[], size_t count, const double values[],
                             size_t total) {
  return set_numbers(m, references, count, values, total);
}
EXPORT status fmi3GetFMUState(instance *m, void **state) { return copy_bytes(m, &m->now, state); }
EXPORT status fmi3SetFMUState(instance *m, void *state) { return set_state(m, state); }
EXPORT status fmi3FreeFMUState(instance *m, void **state) { return free_state(state); }
EXPORT status fmi3SerializedFMUStateSize(instance *m, void *state, size_t *size) {
  *size = sizeof(snapshot);
  return OK;
}
EXPORT status fmi3SerializeFMUState(instance *m, void *state, uint8_t bytes[], size_t size) {
  return serialize(m, state, bytes, size);
}
EXPORT status fmi3DeserializeFMUState(instance *m, const uint8_t bytes[], size_t size, void **state) {
  return deserialize(m, bytes, size, state);
}

/* --- what this unit doesn't offer -------------------------------------------------------------------------------- */

#define NONE(name, ...) \
  EXPORT status name(instance *m, __VA_ARGS__) { return say(m, ERROR, #name " isn't offered by this unit."); }
#define NONE_ALONE(name) \
  EXPORT status name(instance *m) { return say(m, ERROR, #name " isn't offered by this unit."); }
#define NO_VARIABLES(name, type) \
  EXPORT status fmi3Get##name(instance *m, const reference r[], size_t count, type values[], size_t total) { \
    return count ? say(m, ERROR, "This unit has no variables of type " #name ".") : OK; \
  } \
  EXPORT status fmi3Set##name(instance *m, const reference r[], size_t count, const type values[], size_t total) { \
    return count ? say(m, ERROR, "This unit has no variables of type " #name ".") : OK; \
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

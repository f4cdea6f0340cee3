/* The functions of FMI 3.0 for co-simulation and model exchange; those that this unit doesn't offer return an error. */
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
  instance *m = make_instance(name, token, false, logging, environment, (plain_function)log);
  if (m && events) {
    (void)say(m, ERROR, "This unit has no event mode for co-simulation.");
    free(m);
    return NULL;
  }
  return m;
}
EXPORT void *fmi3InstantiateModelExchange(text name, text token, text resources, bool visible, bool logging,
                                          void *environment, log_function log) {
  return make_instance(name, token, true, logging, environment, (plain_function)log);
}
EXPORT void *fmi3InstantiateScheduledExecution(text name, text token, text resources, bool visible, bool logging,
                                               void *environment, log_function log, plain_function update,
                                               plain_function lock, plain_function unlock) {
  return NULL;
}
EXPORT void fmi3FreeInstance(instance *m) { free(m); }
EXPORT status fmi3Reset(instance *m) { return reset(m); }
EXPORT status fmi3SetDebugLogging(instance *m, bool on, size_t count, const text categories[]) {
  return set_logging(m, on);
}
EXPORT status fmi3EnterInitializationMode(instance *m, bool has_tolerance, double tolerance, double start,
                                          bool has_stop, double stop) {
  if (!is_in(m, INSTANTIATED, __func__)) { return ERROR; }
  set_start(m, start, has_tolerance, tolerance);
  return enter(m, INSTANTIATED, INITIALIZATION, __func__);
}
EXPORT status fmi3ExitInitializationMode(instance *m) { return exit_initialization(m, __func__); }
EXPORT status fmi3Terminate(instance *m) { return enter(m, RUNNING, TERMINATED, __func__); }
EXPORT status fmi3DoStep(instance *m, double time, double size, bool is_final, bool *event, bool *terminate,
                         bool *early, double *last) {
  *event = *early = false;
  const status code = do_step(m, time, size, __func__);
  *terminate = code == DISCARD;
  *last = m->now.time;
  return code;
}

/* --- model exchange ---------------------------------------------------------------------------------------------- */

EXPORT status fmi3EnterEventMode(instance *m) {
  return m->is_for_exchange ? enter(m, CONTINUOUS, EVENT, __func__) : say(m, ERROR, "This unit has no event mode.");
}
EXPORT status fmi3EnterContinuousTimeMode(instance *m) { return enter(m, EVENT, CONTINUOUS, __func__); }
EXPORT status fmi3UpdateDiscreteStates(instance *m, bool *again, bool *terminate, bool *nominal, bool *state,
                                       bool *defined, double *next) {
  *again = *nominal = *defined = false;
  return update(m, state, terminate, __func__);
}
EXPORT status fmi3CompletedIntegratorStep(instance *m, bool is_final, bool *event, bool *terminate) {
  *terminate = false;
  return complete_step(m, event, __func__);
}
EXPORT status fmi3SetTime(instance *m, double time) { return set_time(m, time, __func__); }
EXPORT status fmi3SetContinuousStates(instance *m, const double states[], size_t count) {
  return set_states(m, states, count, __func__);
}
EXPORT status fmi3GetContinuousStates(instance *m, double states[], size_t count) {
  return get_all(m, STATE, states, count, MODEL_STATES, __func__);
}
EXPORT status fmi3GetContinuousStateDerivatives(instance *m, double rates[], size_t count) {
  return get_all(m, RATE, rates, count, MODEL_STATES, __func__);
}
EXPORT status fmi3GetEventIndicators(instance *m, double indicators[], size_t count) {
  return get_all(m, INDICATOR, indicators, count, MODEL_INDICATORS, __func__);
}
EXPORT status fmi3GetNominalsOfContinuousStates(instance *m, double values[], size_t count) {
  return get_nominals(m, values, count);
}
EXPORT status fmi3GetNumberOfEventIndicators(instance *m, size_t *count) {
  *count = MODEL_INDICATORS;
  return OK;
}
EXPORT status fmi3GetNumberOfContinuousStates(instance *m, size_t *count) {
  *count = MODEL_STATES;
  return OK;
}

/* --- variables and states ---------------------------------------------------------------------------------------- */

EXPORT status fmi3GetFloat64(instance *m, const reference references[], size_t count, double values[], size_t total) {
  return get_numbers(m, references, count, values, total);
}
EXPORT status fmi3SetFloat64(instance *m, const reference references[], size_t count, const double values[],
                             size_t total) {
  return set_numbers(m, references, count, values, total);
}
EXPORT status fmi3GetDirectionalDerivative(instance *m, const reference unknowns[], size_t n, const reference knowns[],
                                           size_t k, const double seed[], size_t seeds, double sensitivity[],
                                           size_t count) {
  return differentiate(m, ALONG, unknowns, n, knowns, k, seed, seeds, sensitivity, count, __func__);
}
EXPORT status fmi3GetAdjointDerivative(instance *m, const reference unknowns[], size_t n, const reference knowns[],
                                       size_t k, const double seed[], size_t seeds, double sensitivity[],
                                       size_t count) {
  return differentiate(m, BACK, unknowns, n, knowns, k, seed, seeds, sensitivity, count, __func__);
}

UNIT_STATES(fmi3GetFMUState, fmi3SetFMUState, fmi3FreeFMUState, fmi3SerializedFMUStateSize, fmi3SerializeFMUState,
            fmi3DeserializeFMUState, uint8_t)

/* --- what this unit doesn't offer -------------------------------------------------------------------------------- */

#define NO_VARIABLES(name, type) \
  EXPORT status fmi3Get##name(instance *m, const reference r[], size_t count, type values[], size_t total) { \
    return no_variables(m, count, #name); \
  } \
  EXPORT status fmi3Set##name(instance *m, const reference r[], size_t count, const type values[], size_t total) { \
    return no_variables(m, count, #name); \
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
NONE(fmi3GetOutputDerivatives, const reference r[], size_t count, const int32_t orders[], double values[],
     size_t total)

NONE_ALONE(fmi3EnterConfigurationMode)
NONE_ALONE(fmi3ExitConfigurationMode)
NONE_ALONE(fmi3EnterStepMode)
NONE_ALONE(fmi3EvaluateDiscreteStates)

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

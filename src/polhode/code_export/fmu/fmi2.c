/* The functions of FMI 2.0 for co-simulation and model exchange; those that this unit doesn't offer return an error. */
#include "instance.h"

typedef struct {
  void (*log)(void *environment, text name, status, text category, text message, ...);
  void *(*allocate)(size_t count, size_t size);
  void (*release)(void *memory);
  void (*finish)(void *environment, status);
  void *environment;
} callbacks;
typedef void (*log_function)(void *environment, text name, status, text category, text message, ...);

static status say(instance *m, status code, text message) {
  if (m->log && m->is_logging) {
    ((log_function)m->log)(m->environment, m->name, code, "logStatusError", "%s", message);
  }
  return code;
}

/* --- instances and phases ---------------------------------------------------------------------------------------- */

EXPORT text fmi2GetTypesPlatform(void) { return "default"; }
EXPORT text fmi2GetVersion(void) { return "2.0"; }

EXPORT void *fmi2Instantiate(text name, int type, text token, text resources, const callbacks *calls, int visible,
                             int logging) {
  return make_instance(name, token, type == 0, logging != 0, calls ? calls->environment : NULL,
                       calls ? (void (*)(void))calls->log : NULL);
}
EXPORT void fmi2FreeInstance(instance *m) { free(m); }
EXPORT status fmi2Reset(instance *m) { return reset(m); }
EXPORT status fmi2SetDebugLogging(instance *m, int on, size_t count, const text categories[]) {
  return set_logging(m, on != 0);
}
EXPORT status fmi2SetupExperiment(instance *m, int has_tolerance, double tolerance, double start, int has_stop,
                                  double stop) {
  if (!is_in(m, INSTANTIATED, __func__)) { return ERROR; }
  set_start(m, start, has_tolerance != 0, tolerance);
  return OK;
}
EXPORT status fmi2EnterInitializationMode(instance *m) { return enter(m, INSTANTIATED, INITIALIZATION, __func__); }
EXPORT status fmi2ExitInitializationMode(instance *m) { return exit_initialization(m, __func__); }
EXPORT status fmi2Terminate(instance *m) { return enter(m, RUNNING, TERMINATED, __func__); }
EXPORT status fmi2DoStep(instance *m, double time, double size, int is_final) {
  return do_step(m, time, size, __func__);
}

/* --- model exchange ---------------------------------------------------------------------------------------------- */

typedef struct {
  int again, terminate, nominal, state, defined;
  double next;
} event_info;

EXPORT status fmi2EnterEventMode(instance *m) { return enter(m, EVENT | CONTINUOUS, EVENT, __func__); }
EXPORT status fmi2EnterContinuousTimeMode(instance *m) { return enter(m, EVENT, CONTINUOUS, __func__); }
EXPORT status fmi2NewDiscreteStates(instance *m, event_info *info) {
  bool state, terminate;
  const status code = update(m, &state, &terminate, __func__);
  memset(info, 0, sizeof *info);
  info->state = state;
  info->terminate = terminate;
  return code;
}
EXPORT status fmi2CompletedIntegratorStep(instance *m, int is_final, int *event, int *terminate) {
  bool has_event;
  const status code = complete_step(m, &has_event, __func__);
  *event = has_event;
  *terminate = 0;
  return code;
}
EXPORT status fmi2SetTime(instance *m, double time) { return set_time(m, time, __func__); }
EXPORT status fmi2SetContinuousStates(instance *m, const double states[], size_t count) {
  return set_states(m, states, count, __func__);
}
EXPORT status fmi2GetContinuousStates(instance *m, double states[], size_t count) {
  return get_all(m, STATE, states, count, MODEL_STATES, __func__);
}
EXPORT status fmi2GetDerivatives(instance *m, double rates[], size_t count) {
  return get_all(m, RATE, rates, count, MODEL_STATES, __func__);
}
EXPORT status fmi2GetEventIndicators(instance *m, double indicators[], size_t count) {
  return get_all(m, INDICATOR, indicators, count, MODEL_INDICATORS, __func__);
}
EXPORT status fmi2GetNominalsOfContinuousStates(instance *m, double values[], size_t count) {
  return get_nominals(m, values, count);
}

/* --- variables and states ---------------------------------------------------------------------------------------- */

EXPORT status fmi2GetReal(instance *m, const reference references[], size_t count, double values[]) {
  return get_numbers(m, references, count, values, count);
}
EXPORT status fmi2SetReal(instance *m, const reference references[], size_t count, const double values[]) {
  return set_numbers(m, references, count, values, count);
}
EXPORT status fmi2GetDirectionalDerivative(instance *m, const reference unknowns[], size_t n, const reference knowns[],
                                           size_t k, const double seed[], double sensitivity[]) {
  return differentiate(m, ALONG, unknowns, n, knowns, k, seed, k, sensitivity, n, __func__);
}

UNIT_STATES(fmi2GetFMUstate, fmi2SetFMUstate, fmi2FreeFMUstate, fmi2SerializedFMUstateSize, fmi2SerializeFMUstate,
            fmi2DeSerializeFMUstate, char)

/* What a discarded step has left: the time of the last good state (2), and whether the run has ended (3). */
EXPORT status fmi2GetRealStatus(instance *m, int kind, double *value) {
  *value = m->now.time;
  return kind == 2 ? OK : DISCARD;
}
EXPORT status fmi2GetBooleanStatus(instance *m, int kind, int *value) {
  *value = m->now.carry.result != 0;
  return kind == 3 ? OK : DISCARD;
}

/* --- what this unit doesn't offer -------------------------------------------------------------------------------- */

#define NO_VARIABLES(name, type) \
  EXPORT status fmi2Get##name(instance *m, const reference r[], size_t count, type values[]) { \
    return no_variables(m, count, #name); \
  } \
  EXPORT status fmi2Set##name(instance *m, const reference r[], size_t count, const type values[]) { \
    return no_variables(m, count, #name); \
  }

NO_VARIABLES(Integer, int)
NO_VARIABLES(Boolean, int)
NO_VARIABLES(String, text)

EXPORT status fmi2CancelStep(instance *m) { return say(m, ERROR, "There is no step to cancel."); }
NONE(fmi2GetStatus, int kind, status *value)
NONE(fmi2GetIntegerStatus, int kind, int *value)
NONE(fmi2GetStringStatus, int kind, text *value)
NONE(fmi2SetRealInputDerivatives, const reference r[], size_t count, const int orders[], const double values[])
NONE(fmi2GetRealOutputDerivatives, const reference r[], size_t count, const int orders[], double values[])

/* The functions of FMI 2.0 for co-simulation; those that this unit doesn't offer return an error. */
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
  const bool is_for_exchange = type == 0;
  if (is_for_exchange) { return NULL; }
  return make_instance(name, token, logging != 0, calls ? calls->environment : NULL,
                       calls ? (void (*)(void))calls->log : NULL);
}
EXPORT void fmi2FreeInstance(instance *m) { free(m); }
EXPORT status fmi2Reset(instance *m) { return reset(m); }
EXPORT status fmi2SetDebugLogging(instance *m, int on, size_t count, const text categories[]) {
  m->is_logging = on != 0;
  return OK;
}
EXPORT status fmi2SetupExperiment(instance *m, int has_tolerance, double tolerance, double start, int has_stop,
                                  double stop) {
  if (!is_in(m, INSTANTIATED, "fmi2SetupExperiment")) { return ERROR; }
  m->now.time = start;
  return OK;
}
EXPORT status fmi2EnterInitializationMode(instance *m) {
  if (!is_in(m, INSTANTIATED, "fmi2EnterInitializationMode")) { return ERROR; }
  m->now.phase = INITIALIZATION;
  return OK;
}
EXPORT status fmi2ExitInitializationMode(instance *m) {
  return is_in(m, INITIALIZATION, "fmi2ExitInitializationMode") ? exit_initialization(m) : ERROR;
}
EXPORT status fmi2Terminate(instance *m) {
  if (!is_in(m, STEPPING, "fmi2Terminate")) { return ERROR; }
  m->now.phase = TERMINATED;
  return OK;
}
EXPORT status fmi2DoStep(instance *m, double time, double size, int is_final) {
  return is_in(m, STEPPING, "fmi2DoStep") ? do_step(m, time, size) : ERROR;
}

/* --- variables and states ---------------------------------------------------------------------------------------- */

EXPORT status fmi2GetReal(instance *m, const reference references[], size_t count, double values[]) {
  return get_numbers(m, references, count, values, count);
}
EXPORT status fmi2SetReal(instance *m, const reference references[], size_t count, const double values[]) {
  return set_numbers(m, references, count, values, count);
}
EXPORT status fmi2GetFMUstate(instance *m, void **state) { return copy_bytes(m, &m->now, state); }
EXPORT status fmi2SetFMUstate(instance *m, void *state) { return set_state(m, state); }
EXPORT status fmi2FreeFMUstate(instance *m, void **state) { return free_state(state); }
EXPORT status fmi2SerializedFMUstateSize(instance *m, void *state, size_t *size) {
  *size = sizeof(snapshot);
  return OK;
}
EXPORT status fmi2SerializeFMUstate(instance *m, void *state, char bytes[], size_t size) {
  return serialize(m, state, bytes, size);
}
EXPORT status fmi2DeSerializeFMUstate(instance *m, const char bytes[], size_t size, void **state) {
  return deserialize(m, bytes, size, state);
}

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

#define NONE(name, ...) \
  EXPORT status name(instance *m, __VA_ARGS__) { return say(m, ERROR, #name " isn't offered by this unit."); }
#define NO_VARIABLES(name, type) \
  EXPORT status fmi2Get##name(instance *m, const reference r[], size_t count, type values[]) { \
    return count ? say(m, ERROR, "This unit has no variables of type " #name ".") : OK; \
  } \
  EXPORT status fmi2Set##name(instance *m, const reference r[], size_t count, const type values[]) { \
    return count ? say(m, ERROR, "This unit has no variables of type " #name ".") : OK; \
  }

NO_VARIABLES(Integer, int)
NO_VARIABLES(Boolean, int)
NO_VARIABLES(String, text)

EXPORT status fmi2CancelStep(instance *m) { return say(m, ERROR, "There is no step to cancel."); }
NONE(fmi2GetStatus, int kind, status *value)
NONE(fmi2GetIntegerStatus, int kind, int *value)
NONE(fmi2GetStringStatus, int kind, text *value)
NONE(fmi2GetDirectionalDerivative, const reference unknowns[], size_t n, const reference knowns[], size_t k,
     const double seed[], double sensitivity[])
NONE(fmi2SetRealInputDerivatives, const reference r[], size_t count, const int orders[], const double values[])
NONE(fmi2GetRealOutputDerivatives, const reference r[], size_t count, const int orders[], double values[])

"""Texts of exported files in C, with places for what differs."""

FLAGS = "Compile with -std=c99 -O2 -ffp-contract=off, without -ffast-math: then results have the bytes of polhode's."

HEADER = """\
/* {problem}: steps of {method} with h = {h}, written by polhode {version} (model {digest}).

   Compile with -std=c99 -O2 -ffp-contract=off, without -ffast-math. Functions allocate nothing, keep nothing between
   calls and change only what pointers lead to, so that several models, and threads, may use them at once. All loops are
   bounded by the largest number of iterations of the method. Units: {units}.

   Stack of a call: at most {stack} bytes.
   Operations of one pass through a step, with all branches: {operations}. Loops that iterate, as Newton's method does,
   count once and go round until they converge, at most as often as the method allows: this is no bound of time. */
#ifndef {guard}
#define {guard}

#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define {NAME}_H_STEP {h}
#define {NAME}_OUTPUTS {count}

/* Results of {name}_start and {name}_step; after a failure the state is the last good one, and steps do nothing. */
enum {name}_result {{
{codes}
}};

{structs}

{defaults}extern const char *const {name}_output_names[{NAME}_OUTPUTS];

/* Begins at time t0. With the defaults these are the numbers that `simulate` begins with. */
{start}
/* Begins at time t0 in another state, which must keep the constraints of the model. */
{start_from}
/* One step of {NAME}_H_STEP. */
{step}
{restarts}{derivatives}/* Outputs, invariants and residuals of the present state. */
{read}
/* Model, method and step. */
{about}
{hash}

#ifdef __cplusplus
}}
#endif

#endif
"""

MAIN = """
#ifdef {NAME}_MAIN
#include <stdio.h>
#include <stdlib.h>

/* Prints time and outputs as a table: arguments are the number of steps, and how many there are between rows. */
int main(int count, char **arguments) {{
  const long steps = count > 1 ? atol(arguments[1]) : 1000, every = count > 2 ? atol(arguments[2]) : 1;
  {name}_carry carry;
  {name}_outputs outputs;
  double row[{NAME}_OUTPUTS];
  int32_t result = {name}_start({passed}{t0}, &carry);
  printf("t");
  for (int k = 0; k < {NAME}_OUTPUTS; ++k) {{ printf(",%s", {name}_output_names[k]); }}
  for (long n = 0; n <= steps && result == 0; ++n) {{
    if (n % (every > 0 ? every : 1) == 0) {{
      {name}_read({passed}&carry, &outputs);
      memcpy(row, &outputs, sizeof row);
      printf("\\n%.17g", carry.t);
      for (int k = 0; k < {NAME}_OUTPUTS; ++k) {{ printf(",%.17g", row[k]); }}
    }}
    if (n < steps) {{ result = {name}_step({passed}&carry); }}
  }}
  printf("\\n");
  return (int)result;
}}
#endif
"""

RESTARTS = """\
/* To be called after inputs have jumped: rebuilds what the method remembers. They are held within steps. */
{jump}
/* From the present time on steps have length h; rebuilds what the method remembers. */
{resize}
"""

DERIVATIVES = {
    "along": "/* The change of the carry after a step from this one, along changes of all that it depends on. */",
    "back": "/* Gradients of a function of the carry after a step from this one, from its gradient there. */",
}
"""Note on derivatives of a step; integers of a carry have none, and zeros in their place."""

"""Text before a function in C: its memory, and operations for which C has no operator."""

PRELUDE = """\
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PART static __attribute__((noinline))
#else
#define PART static
#endif

typedef union { double number; int64_t integer; } slot;

static inline double maximum(double a, double b) {
  if (isnan(a) || isnan(b)) { return isnan(a) ? a : b; }
  if (a == b) { return signbit(a) ? b : a; }
  return a > b ? a : b;
}
static inline double minimum(double a, double b) {
  if (isnan(a) || isnan(b)) { return isnan(a) ? a : b; }
  if (a == b) { return signbit(a) ? a : b; }
  return a < b ? a : b;
}
static inline double power(double x, unsigned n) {
  double result = 1.0;
  for (; n; n >>= 1) {
    if (n & 1) { result *= x; }
    x *= x;
  }
  return result;
}
static inline double sign_of(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; }
static inline int64_t rank_of(double x) {
  slot bits;
  bits.number = x;
  return bits.integer < 0 ? bits.integer ^ INT64_MAX : bits.integer;
}
static inline int64_t to_int64(double x) {
  if (isnan(x)) { return 0; }
  return x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
}
static inline int32_t to_int32(double x) {
  if (isnan(x)) { return 0; }
  return x >= 0x1p31 ? INT32_MAX : x <= -0x1p31 ? INT32_MIN : (int32_t)x;
}
static inline int64_t negate(int64_t a) { return (int64_t)(0u - (uint64_t)a); }
static inline int64_t quotient(int64_t a, int64_t b) { return b == 0 ? -1 : b == -1 ? negate(a) : a / b; }
static inline int64_t remainder_of(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
"""

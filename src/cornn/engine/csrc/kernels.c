/* All updates in one precision for one instruction set. Compiled once for each, with ISA (a word), DOUBLE (or not) and
   the flags of the instruction set. */

#include "rows.h"
#include "tanh.h"
#include "pointwise.h"

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(word) JOIN(word, UPDATE)

#define UPDATE explicit_tanh
#define UPDATE_NAME "cornn/explicit/tanh"
#define IMPLICIT 0
#include "oscillator.h"
#include "sequence.h"
#include "end.h"

#define UPDATE implicit_tanh
#define UPDATE_NAME "cornn/implicit/tanh"
#define IMPLICIT 1
#include "oscillator.h"
#include "sequence.h"
#include "end.h"

#define UPDATE spans_tanh
#define UPDATE_NAME "cornn/spans/tanh"
#include "spans.h"
#include "sequence.h"
#include "end.h"

/* The updates of engine/updates, and their names in POINTWISE_KERNELS. */
#include "updates.h"

#ifdef DOUBLE
#define TABLE JOIN(cornn_double, ISA)
#else
#define TABLE JOIN(cornn_float, ISA)
#endif

extern const Kernel *const TABLE[];
const Kernel *const TABLE[] = {&kernel_explicit_tanh, &kernel_implicit_tanh, &kernel_spans_tanh, POINTWISE_KERNELS, NULL};

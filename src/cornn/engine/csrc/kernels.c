/* All updates in one precision for one instruction set. Compiled once for each, with ISA (a word), DOUBLE (or not) and
   the flags of the instruction set. */

#include "rows.h"
#include "tanh.h"
#include "one_state.h"

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

#define UPDATE leaky
#define UPDATE_NAME "leaky"
#include "leaky.h"
#include "sequence.h"
#include "end.h"

#define UPDATE fastgrnn
#define UPDATE_NAME "fastgrnn"
#include "fastgrnn.h"
#include "sequence.h"
#include "end.h"

#define UPDATE modrelu
#define UPDATE_NAME "modrelu"
#include "modrelu.h"
#include "sequence.h"
#include "end.h"

#define UPDATE gated
#define UPDATE_NAME "gated"
#include "gated.h"
#include "sequence.h"
#include "end.h"

#define UPDATE lipschitz
#define UPDATE_NAME "lipschitz"
#include "lipschitz.h"
#include "sequence.h"
#include "end.h"

#ifdef DOUBLE
#define TABLE JOIN(cornn_double, ISA)
#else
#define TABLE JOIN(cornn_float, ISA)
#endif

extern const Kernel *const TABLE[];
const Kernel *const TABLE[] = {
    &kernel_explicit_tanh, &kernel_implicit_tanh, &kernel_leaky,     &kernel_fastgrnn,
    &kernel_modrelu,       &kernel_gated,         &kernel_lipschitz, NULL,
};

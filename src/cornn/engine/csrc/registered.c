/* One update that was registered in Python, in one precision for one instruction set: compiled at its first use, with its
   code in the file UPDATE_FILE. */

#include "rows.h"
#include "tanh.h"
#include "pointwise.h"

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(word) JOIN(word, UPDATE)

#include UPDATE_FILE
#include "sequence.h"

static Parallel *parallel;

void cornn_parallel(void (*body)(void *, int64_t, int64_t), void *context, int64_t units, int64_t threads)
{
    parallel(body, context, units, threads);
}

/* The kernel. It runs on the threads of the library that the package was built with. */
EXPORT const Kernel *cornn_registered(Parallel *threads)
{
    parallel = threads;
    return &NAME(kernel);
}

/* The division of the work: a unit is a few rows of one group, for which one thread runs all steps. */
#ifndef ROWS_H
#define ROWS_H

#include "product.h"

/* Maximum rows of a unit: two tiles of the widest registers, which share each pass over the weights. */
#define UNIT_ROWS 24

/* Bytes above which a block of (time, group, batch, hidden) does not stay in a cache. */
#define LARGE_BLOCK (16 << 20)

/* With fewer multiply-adds per thread, starting the thread takes longer than the work. */
#define SMALL_SHARE 2000000

typedef struct {
    const Call *call;
    int64_t threads;
    int64_t units;         /* of each group */
    ptrdiff_t block;       /* elements of (time, group, batch, hidden) */
    ptrdiff_t packed_size; /* elements of one group's packed weights */
    const real *packed;
    const real *packed_input; /* backward: the weights of the input, after `packed` of the same group */
    const real *constants; /* of each group: its parameters, then its coefficients for span 1, in whole vectors */
    real *scratch;         /* of each thread */
} Plan;

typedef struct {
    int64_t group, count;
    int64_t active;            /* number of rows that have not ended: a prefix, since the longest come first */
    int64_t number[UNIT_ROWS]; /* index among the rows of all groups */
    int64_t length[UNIT_ROWS];
    ptrdiff_t at[UNIT_ROWS];    /* index among the rows of all steps, for the current step */
    ptrdiff_t place[UNIT_ROWS]; /* offset of that row in a block of (time, group, batch, hidden) */
} Rows;

/* Rows of scratch are an odd number of vectors apart, so that a column is spread over the cache. */
INLINE ptrdiff_t row_stride(ptrdiff_t columns) { return (round_up(columns, LANES) / LANES | 1) * LANES; }

static int64_t threads_of(const Call *call, int64_t weights)
{
    const int64_t work = call->groups * call->batch * call->steps * weights, useful = work / SMALL_SHARE + 1;
    return call->threads < useful ? call->threads : useful;
}

/* Number of units of a group: as few as possible, then more until all threads have equal shares. */
static int64_t units_of(const Call *call, int64_t threads)
{
    int64_t units = (call->batch + UNIT_ROWS - 1) / UNIT_ROWS;
    while (units * call->groups % threads && call->batch / (units + 1) >= 2) units++;
    return units;
}

static Rows rows_of(const Plan *plan, int64_t unit)
{
    const Call *call = plan->call;
    Rows rows = {.group = unit / plan->units};
    const int64_t part = unit % plan->units, first = call->batch * part / plan->units;
    rows.count = call->batch * (part + 1) / plan->units - first;
    for (int64_t row = 0; row < rows.count; row++) {
        const int64_t place = rows.group * call->batch + first + row;
        rows.number[row] = call->order ? rows.group * call->batch + call->order[place] : place;
        rows.length[row] = call->lengths ? call->lengths[rows.number[row]] : call->steps;
    }
    return rows;
}

/* Moves on to step n. */
INLINE void at_step(const Call *call, Rows *rows, int64_t n)
{
    for (int64_t row = 0; row < rows->count; row++) {
        rows->at[row] = n * call->groups * call->batch + rows->number[row];
        rows->place[row] = rows->at[row] * call->hidden;
    }
}

/* Prefetches the active rows of a block, to be read or written, while the product keeps the arithmetic units busy. The
   steps of a row are too far apart in memory for the processor's own prefetcher. */
INLINE void prefetch(Ahead *ahead, const Rows *rows, const real *block, ptrdiff_t distance, ptrdiff_t width)
{
    for (int64_t row = 0; row < rows->active; row++)
        add_lines(ahead, block + (rows->at[row] + distance) * width, width);
}

/* Calls a function for every vector of a row, with j and count among its arguments. The count is a constant except for
   the last vector. */
#define EACH_VECTOR(columns, function, ...)                \
    do {                                                   \
        ptrdiff_t j = 0;                                   \
        for (; j + LANES <= (columns); j += LANES) {       \
            const ptrdiff_t count = LANES;                 \
            function(__VA_ARGS__);                         \
        }                                                  \
        if (j < (columns)) {                               \
            const ptrdiff_t count = (columns) - j;         \
            function(__VA_ARGS__);                         \
        }                                                  \
    } while (0)

/* Whether to write a block past the caches. */
INLINE int goes_past_caches(const Plan *plan, const real *block)
{
    return plan->block * (ptrdiff_t)sizeof(real) >= LARGE_BLOCK && plan->call->hidden % LANES == 0 &&
           (uintptr_t)block % VECTOR_BYTES == 0;
}

#endif

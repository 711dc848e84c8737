/* How the work is cut: a unit is a few rows of one group, which one thread takes through all steps. */
#ifndef ROWS_H
#define ROWS_H

#include "product.h"

#define UNIT_ROWS 48

/* Above this the packed weights do not stay in a core's own cache: more rows are to share each pass over them. */
#define LARGE_WEIGHTS (1 << 20)

/* Fewer multiply-adds than this a thread are done before a thread has started. */
#define SMALL_SHARE 2000000

typedef struct {
    const Problem *problem;
    int64_t threads;
    int64_t units;         /* of each group */
    ptrdiff_t block;       /* elements of (time, group, batch, hidden) */
    ptrdiff_t packed_size; /* elements of one group's packed weights */
    const real *packed;
    const real *constants; /* of each group: its parameters, then its coefficients for span 1, in whole vectors */
    real *scratch;         /* of each thread */
} Plan;

typedef struct {
    int64_t group, count;
    int64_t active;            /* the rows that are not past their end: a prefix, since the longest come first */
    int64_t number[UNIT_ROWS]; /* among the rows of all groups */
    int64_t length[UNIT_ROWS];
} Rows;

/* Rows of scratch are an odd number of vectors apart, so that a column of them is spread over the cache. */
INLINE ptrdiff_t row_stride(ptrdiff_t columns) { return (round_up(columns, LANES) / LANES | 1) * LANES; }

static int64_t threads_of(const Problem *p, int64_t weights)
{
    const int64_t work = p->groups * p->batch * p->steps * weights, useful = work / SMALL_SHARE + 1;
    return p->threads < useful ? p->threads : useful;
}

/* Units of a group: as few as tiles allow, then more until the threads have equal shares. */
static int64_t units_of(const Problem *p, int64_t threads, int64_t weights)
{
    const int64_t most = weights * (int64_t)sizeof(real) > LARGE_WEIGHTS ? UNIT_ROWS : 12;
    int64_t units = (p->batch + most - 1) / most;
    while (units * p->groups % threads && p->batch / (units + 1) >= 2) units++;
    return units;
}

static Rows rows_of(const Plan *plan, int64_t unit)
{
    const Problem *p = plan->problem;
    Rows rows = {.group = unit / plan->units};
    const int64_t part = unit % plan->units, first = p->batch * part / plan->units;
    rows.count = p->batch * (part + 1) / plan->units - first;
    for (int64_t row = 0; row < rows.count; row++) {
        const int64_t place = rows.group * p->batch + first + row;
        rows.number[row] = p->order ? rows.group * p->batch + p->order[place] : place;
        rows.length[row] = p->lengths ? p->lengths[rows.number[row]] : p->steps;
    }
    return rows;
}

/* Where a row of a step begins in a (time, group, batch, hidden) block. */
INLINE ptrdiff_t place(const Problem *p, const Rows *rows, int64_t n, int64_t row)
{
    return (n * p->groups * p->batch + rows->number[row]) * p->hidden;
}

#endif

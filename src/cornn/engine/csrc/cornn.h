/* What Python hands over, and what a set of kernels answers. */
#ifndef CORNN_H
#define CORNN_H

#include <stddef.h>
#include <stdint.h>

/* To be raised with every change of Call or of the exported functions: a library left over from before is refused. */
#define CORNN_INTERFACE 5

/* Shapes are those of engine/problem.py, everything is contiguous, and what there is none of is NULL. Numbers are float
   or double, as the precision says. */
typedef struct {
    int64_t groups, steps, batch, hidden;
    int64_t features; /* of the input; not looked at without input_weight, where the input is the drive itself */
    int64_t threads;
    const void *input, *input_weight, *bias;
    void *trail, *output; /* the trail is NULL where nothing is to be kept */
    const void *state, *weight, *parameters, *timespans;
    const int64_t *lengths; /* (group, batch) */
    const int64_t *order;   /* (group, batch): each group's rows, the longest first; there if lengths is */
    void *last;
    const void *grad_output, *grad_last;
    void *grad_drive, *grad_state, *grad_timespans;
    void *grad_input; /* with input_weight only */
    void *grad_weight, *grad_input_weight, *grad_bias;
    void *sums; /* (coefficients, group, batch, hidden) of zeros; holds each row's parameter gradients afterwards */
    void *workspace;
} Call;

/* One update in one precision for one instruction set. */
typedef struct {
    const char *update;
    int64_t parameters, coefficients;
    int64_t (*workspace)(const Call *); /* bytes, enough for any of the three */
    void (*forward)(const Call *);
    void (*backward)(const Call *);
    void (*weight_gradients)(const Call *); /* from grad_drive, output, trail, state and input */
} Kernel;

/* Calls function(data) on as many threads, or on fewer, and returns when all are done: GOMP_parallel of OpenMP's
   runtimes. */
typedef void Team(void (*function)(void *), void *data, unsigned threads, unsigned flags);

/* Which of them the caller is, from 0: omp_get_thread_num. */
typedef int Number(void);

/* The threads to use from now on; NULL for threads of our own. */
void cornn_set_team(Team *team, Number *number);

/* Calls body(context, unit, worker) for every unit, on at most `threads` threads. Each has its share of neighbouring
   units, the same in every call, and then takes what others have left. */
typedef void Parallel(void (*body)(void *, int64_t, int64_t), void *context, int64_t units, int64_t threads);
Parallel cornn_parallel;

#endif

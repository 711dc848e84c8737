/* What Python hands over, and what a set of kernels answers. */
#ifndef CORNN_H
#define CORNN_H

#include <stddef.h>
#include <stdint.h>

/* To be raised with every change of Problem or of the exported functions: a library left over from before is refused. */
#define CORNN_INTERFACE 1

/* Shapes are those of engine/problem.py, everything is contiguous, and what there is none of is NULL. Numbers are float
   or double, as the precision says. */
typedef struct {
    int64_t groups, steps, batch, hidden;
    int64_t threads;
    int64_t keep; /* forward: whether the trail has all its blocks, to be filled */
    void *trail, *output;
    const void *state, *weight, *parameters, *timespans;
    const int64_t *lengths; /* (group, batch) */
    const int64_t *order;   /* (group, batch): each group's rows, the longest first; present if and only if lengths is */
    void *last;
    const void *grad_output, *grad_last;
    void *grad_drive, *grad_state, *grad_timespans;
    void *sums; /* (coefficients, group, batch, hidden) of zeros; holds each row's parameter gradients afterwards */
    void *workspace;
} Problem;

/* One update in one precision for one instruction set. */
typedef struct {
    const char *update;
    int64_t parameters, coefficients;
    int64_t (*workspace)(const Problem *); /* bytes */
    void (*forward)(const Problem *);
    void (*backward)(const Problem *);
} Kernel;

/* Calls body(context, unit, worker) for every unit, on at most `threads` threads. Units are handed out in order. */
void cornn_parallel(void (*body)(void *, int64_t, int64_t), void *context, int64_t units, int64_t threads);

#endif

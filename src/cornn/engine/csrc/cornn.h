/* The arguments from Python, and the functions of a set of kernels. */
#ifndef CORNN_H
#define CORNN_H

#include <stddef.h>
#include <stdint.h>

/* Marks a function that Python calls. */
#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Increase with every change of Call or of the exported functions: an outdated library is then rejected. */
#define CORNN_INTERFACE 7

/* Shapes are those of engine/contract.py. Everything is contiguous; absent arrays are NULL. Numbers are float or
   double, depending on the precision. */
typedef struct {
    int64_t groups, steps, batch, hidden;
    int64_t features; /* of the input; unused without input_weight, when the input is the drive */
    int64_t threads;
    const void *input, *input_weight, *bias;
    void *trail, *output; /* trail is NULL without a backward pass */
    const void *state, *weight, *parameters, *timespans;
    const int64_t *lengths; /* (group, batch) */
    const int64_t *order;   /* (group, batch): each group's rows, the longest first; NULL if lengths is */
    void *last;
    const void *grad_output, *grad_last;
    void *grad_drive, *grad_state, *grad_timespans;
    void *grad_input; /* with input_weight only */
    void *grad_weight, *grad_input_weight, *grad_bias;
    void *sums; /* (coefficients, group, batch, hidden): zeros on entry, each row's parameter gradients on exit */
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

/* Calls function(data) on at most so many threads and returns when all are done: GOMP_parallel of OpenMP's runtimes. */
typedef void Team(void (*function)(void *), void *data, unsigned threads, unsigned flags);

/* The number of the calling thread, from 0: omp_get_thread_num. */
typedef int Number(void);

/* Sets the threads to use from now on; NULL means threads of this library. */
void cornn_set_team(Team *team, Number *number);

/* Calls body(context, unit, worker) for every unit, on at most `threads` threads. Each thread takes its share of
   neighbouring units, the same in every call, and then remaining units of others. */
typedef void Parallel(void (*body)(void *, int64_t, int64_t), void *context, int64_t units, int64_t threads);
Parallel cornn_parallel;

#endif

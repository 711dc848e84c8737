/* Threads that live for one call: nothing to break after a fork, and calls from several threads do not meet. */

#include "cornn.h"

#if defined(_WIN32)
#include <windows.h>
typedef HANDLE Thread;
typedef DWORD Answer;
#define ENTRY WINAPI
#else
#include <pthread.h>
typedef pthread_t Thread;
typedef void *Answer;
#define ENTRY
#endif

#define MOST_THREADS 256

typedef struct {
    void (*body)(void *, int64_t, int64_t);
    void *context;
    int64_t units, next;
} Work;

typedef struct {
    Work *work;
    int64_t number;
    Thread thread;
} Worker;

static Answer ENTRY serve(void *argument)
{
    const Worker *worker = argument;
    Work *work = worker->work;
    int64_t unit;
    while ((unit = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED)) < work->units)
        work->body(work->context, unit, worker->number);
    return 0;
}

static int start(Worker *worker)
{
#if defined(_WIN32)
    worker->thread = CreateThread(NULL, 0, serve, worker, 0, NULL);
    return worker->thread != NULL;
#else
    return pthread_create(&worker->thread, NULL, serve, worker) == 0;
#endif
}

static void join(Worker *worker)
{
#if defined(_WIN32)
    WaitForSingleObject(worker->thread, INFINITE);
    CloseHandle(worker->thread);
#else
    pthread_join(worker->thread, NULL);
#endif
}

void cornn_parallel(void (*body)(void *, int64_t, int64_t), void *context, int64_t units, int64_t threads)
{
    Work work = {body, context, units, 0};
    Worker workers[MOST_THREADS];
    int64_t started = 1;
    if (threads > units) threads = units;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    workers[0] = (Worker){.work = &work};
    /* Where a thread cannot be had, the others take its units. */
    for (; started < threads; started++) {
        workers[started] = (Worker){.work = &work, .number = started};
        if (!start(&workers[started])) break;
    }
    serve(&workers[0]);
    for (int64_t i = 1; i < started; i++) join(&workers[i]);
}

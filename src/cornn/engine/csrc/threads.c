/* Threads. They are PyTorch's OpenMP threads if Python has passed them (cornn_set_team): those are awake, each on its
   core, and would compete with others. Otherwise threads live for one call, so that a fork cannot break them. */

#include <fenv.h>

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
    int64_t units, threads;
    int64_t next_worker;
    int64_t next_unit[MOST_THREADS]; /* of each worker's own */
    fenv_t environment;              /* of the caller: all threads flush tiny numbers to zero, or none */
} Work;

static Team *team;
static Number *number;

void cornn_set_team(Team *given, Number *own_number) { team = given, number = own_number; }

static int64_t first_unit(const Work *work, int64_t worker) { return work->units * worker / work->threads; }

/* A worker takes its own units, the same in every call, so that the results of one pass are in its cache in the next.
   Then it takes units of others. */
static void take_units(Work *work, int64_t worker)
{
    fenv_t own;
    fegetenv(&own);
    fesetenv(&work->environment);
    for (int64_t i = 0; i < work->threads; i++) {
        const int64_t owner = (worker + i) % work->threads, end = first_unit(work, owner + 1);
        for (;;) {
            const int64_t unit = __atomic_fetch_add(&work->next_unit[owner], 1, __ATOMIC_RELAXED);
            if (unit >= end) break;
            work->body(work->context, unit, worker);
        }
    }
    fesetenv(&own);
}

static void serve(void *argument) { take_units(argument, number()); }

static Answer ENTRY serve_thread(void *argument)
{
    Work *work = argument;
    take_units(work, __atomic_fetch_add(&work->next_worker, 1, __ATOMIC_RELAXED));
    return 0;
}

static int start(Thread *thread, Work *work)
{
#if defined(_WIN32)
    *thread = CreateThread(NULL, 0, serve_thread, work, 0, NULL);
    return *thread != NULL;
#else
    return pthread_create(thread, NULL, serve_thread, work) == 0;
#endif
}

static void join(Thread thread)
{
#if defined(_WIN32)
    WaitForSingleObject(thread, INFINITE);
    CloseHandle(thread);
#else
    pthread_join(thread, NULL);
#endif
}

void cornn_parallel(void (*body)(void *, int64_t, int64_t), void *context, int64_t units, int64_t threads)
{
    if (threads > units) threads = units;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads < 1) threads = 1;
    Work work;
    work.body = body, work.context = context, work.units = units, work.threads = threads, work.next_worker = 1;
    for (int64_t worker = 0; worker < threads; worker++) work.next_unit[worker] = first_unit(&work, worker);
    fegetenv(&work.environment);
    if (threads > 1 && team) {
        team(serve, &work, (unsigned)threads, 0);
        return;
    }
    Thread others[MOST_THREADS];
    int64_t started = 0;
    /* If a thread cannot be started, the others take its units. */
    while (started < threads - 1 && start(&others[started], &work)) started++;
    take_units(&work, 0);
    for (int64_t i = 0; i < started; i++) join(others[i]);
}

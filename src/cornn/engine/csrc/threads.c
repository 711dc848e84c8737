/* Threads. They are PyTorch's own OpenMP threads where Python has handed them over (cornn_set_team): those are awake,
   each on its core, and would compete with others. Else they live for one call: nothing to break after a fork. */

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
    int64_t units, next_unit, next_worker;
    fenv_t environment; /* of the caller: whether tiny numbers are flushed to zero holds for all threads */
} Work;

static Team *team;

void cornn_set_team(Team *given) { team = given; }

static void serve(void *argument)
{
    Work *work = argument;
    const int64_t worker = __atomic_fetch_add(&work->next_worker, 1, __ATOMIC_RELAXED);
    fenv_t own;
    fegetenv(&own);
    fesetenv(&work->environment);
    for (;;) {
        const int64_t unit = __atomic_fetch_add(&work->next_unit, 1, __ATOMIC_RELAXED);
        if (unit >= work->units) break;
        work->body(work->context, unit, worker);
    }
    fesetenv(&own);
}

static Answer ENTRY serve_thread(void *argument)
{
    serve(argument);
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
    Work work = {.body = body, .context = context, .units = units};
    fegetenv(&work.environment);
    if (threads > units) threads = units;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads > 1 && team) {
        team(serve, &work, (unsigned)threads, 0);
        return;
    }
    Thread others[MOST_THREADS];
    int64_t started = 0;
    /* Where a thread cannot be had, the others take its units. */
    while (started < threads - 1 && start(&others[started], &work)) started++;
    serve(&work);
    for (int64_t i = 0; i < started; i++) join(others[i]);
}

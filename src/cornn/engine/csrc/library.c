/* The functions that Python calls. */

#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "cornn.h"

extern const Kernel *const cornn_float_generic[], *const cornn_double_generic[];
#if defined(__x86_64__)
extern const Kernel *const cornn_float_avx512[], *const cornn_double_avx512[];
extern const Kernel *const cornn_float_avx2[], *const cornn_double_avx2[];
#endif

enum { NOT_BUILT = -1, NOT_HERE = 0, HERE = 1 };

#if defined(__x86_64__)
/* Asks the processor directly: the compilers' own test needs a runtime library that not all of them have. Registers
   count only if the operating system saves them. */
static int has(int avx512)
{
    unsigned eax, ebx, ecx, edx, saved, high;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return 0;
    const unsigned fma = 1u << 12, xsave = 1u << 27;
    if (!(ecx & fma) || !(ecx & xsave)) return 0;
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    const unsigned wanted = avx512 ? 0xe6 : 0x06;
    if ((saved & wanted) != wanted || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return 0;
    return ebx >> (avx512 ? 16 : 5) & 1;
}
#endif

EXPORT int64_t cornn_interface(void) { return CORNN_INTERFACE; }

/* Whether this processor has an instruction set, and the library kernels for it. */
EXPORT int cornn_supports(const char *isa)
{
    if (!strcmp(isa, "generic")) return HERE;
#if defined(__x86_64__)
    if (!strcmp(isa, "avx512")) return has(1) ? HERE : NOT_HERE;
    if (!strcmp(isa, "avx2")) return has(0) ? HERE : NOT_HERE;
#endif
    return NOT_BUILT;
}

/* Returns NULL for an unknown update. `isa` must be supported: cornn_supports. */
EXPORT const Kernel *cornn_kernel(const char *isa, int is_double, const char *update)
{
    const Kernel *const *table = is_double ? cornn_double_generic : cornn_float_generic;
#if defined(__x86_64__)
    if (!strcmp(isa, "avx512")) table = is_double ? cornn_double_avx512 : cornn_float_avx512;
    if (!strcmp(isa, "avx2")) table = is_double ? cornn_double_avx2 : cornn_float_avx2;
#else
    (void)isa;
#endif
    for (; *table; table++)
        if (!strcmp((*table)->update, update)) return *table;
    return NULL;
}

/* For kernels that are compiled later. */
EXPORT Parallel *cornn_threads(void) { return cornn_parallel; }

EXPORT void cornn_use_team(Team *team, Number *number) { cornn_set_team(team, number); }

/* Requests large pages for memory that has not been used yet. Only the speed depends on it. */
EXPORT void cornn_large_pages(void *start, int64_t bytes)
{
#if defined(__linux__)
    const uintptr_t page = 4096, from = ((uintptr_t)start + page - 1) & ~(page - 1);
    const uintptr_t to = ((uintptr_t)start + bytes) & ~(page - 1);
    if (to > from) madvise((void *)from, to - from, MADV_HUGEPAGE);
#else
    (void)start, (void)bytes;
#endif
}

/* Firmware for an emulated Cortex-M. It runs a model on the sequences of the file "samples" and writes the file
   "answers" through semihosting, that is, with the file system of the host. For each sequence it writes the ticks of
   its steps, the bytes of stack that they used, and the outputs of the model. */
#include <stddef.h>
#include <stdint.h>

#include "model.h"

#define LONGEST 4096 /* maximum steps of a sequence */
#define PAINTED 4096 /* words of stack that are monitored */
#define PAINT 0x5EA1C0DEu

#ifdef MODEL_WORDS
typedef uint32_t sample_type;
#else
typedef float sample_type[MODEL_INPUTS];
#endif

extern uint32_t data_in_flash[], data_begin[], data_end[], bss_begin[], bss_end[], stack_top[];

void start(void);
__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top, (void *)start, (void *)start, (void *)start,
};

/* Semihosting call: 1 open, 2 close, 5 write, 6 read, 0x18 exit. */
static int ask(int request, const void *arguments)
{
    register int r0 __asm__("r0") = request;
    register const void *r1 __asm__("r1") = arguments;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static int opened(const char *name, size_t size, int mode)
{
    const uintptr_t arguments[3] = {(uintptr_t)name, (uintptr_t)mode, size};
    return ask(1, arguments);
}

/* Return whether everything was read or written. */
static int moved(int request, int file, void *data, size_t size)
{
    const uintptr_t arguments[3] = {(uintptr_t)file, (uintptr_t)data, size};
    return ask(request, arguments) == 0;
}

/* SysTick counts down from 2^24 at 25 MHz. With `-icount shift=0` an instruction takes 1 ns, so 40 make a tick. */
#define SYSTICK ((volatile uint32_t *)0xE000E010)
#define TICKS 0xFFFFFFu

static sample_type samples[LONGEST];
static model_state state;

static __attribute__((noinline)) uint32_t timed(int32_t length)
{
    SYSTICK[2] = 0;
    const uint32_t before = SYSTICK[2];
    for (int32_t n = 0; n < length; n++)
        model_step(&state, samples[n]);
    return (before - SYSTICK[2]) & TICKS;
}

static void run(void)
{
    const int given = opened("samples", 7, 1), taken = opened("answers", 7, 5);
    volatile uint32_t *top;
    int32_t length;
    while (moved(6, given, &length, sizeof length) && length <= LONGEST &&
           moved(6, given, samples, (size_t)length * sizeof *samples)) {
        float output[MODEL_OUTPUTS];
        uint32_t measured[2];
        __asm__ volatile("mov %0, sp" : "=r"(top));
        for (int i = 1; i <= PAINTED; i++)
            top[-i] = PAINT;
        model_reset(&state);
        measured[0] = timed(length);
        int unused = PAINTED;
        while (unused > 0 && top[-unused] == PAINT)
            unused--;
        measured[1] = (uint32_t)unused * 4;
        model_read(&state, output);
        moved(5, taken, measured, sizeof measured);
        moved(5, taken, output, sizeof output);
    }
    ask(2, &given);
    ask(2, &taken);
}

void start(void)
{
    const uint32_t *from = data_in_flash;
    for (uint32_t *to = data_begin; to < data_end; to++)
        *to = *from++;
    for (uint32_t *to = bss_begin; to < bss_end; to++)
        *to = 0;
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* enable the FPU */
    __asm__ volatile("dsb\n\tisb");
    SYSTICK[1] = TICKS;
    SYSTICK[0] = 5; /* enable, with the processor clock */
    run();
    ask(0x18, (const void *)0x20026); /* normal exit */
    for (;;)
        continue;
}

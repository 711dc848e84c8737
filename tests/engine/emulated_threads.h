// The threads of emulated.h. They are compiled once, in emulated.cpp, and linked with every kernel.
#pragma once

struct Index { int x; };
extern Index threadIdx, blockIdx;
extern unsigned char dynamic[1 << 17];

enum State { RUNS, AT_MULTIPLY, AT_BARRIER, DONE };

void pause(State state);
void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);
void copy_later(void* to, const float* from, int bytes, bool wanted);
void commit();
void wait_for_copies(int left);

// pack: values in a word of a multiply-add, 1 with tf32 and 2 with bf16.
void run_blocks(int blocks, int count, int pack, void (*body)(void*), void* given);

// The emulation has met what a GPU would do wrong.
[[noreturn]] void fail(const char* what);

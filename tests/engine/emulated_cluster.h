// What the cluster kernels need of a GPU besides emulated.h: blocks that run together, each with its shared memory,
// barriers that count bytes, and stores to another block. All threads of a cluster are one block of emulated.h.
#pragma once
#include "emulated_bits.h"
#define BF16 0
#include "emulated.h"
#define __cluster_dims__(...)

constexpr int BLOCK = COUNT_OF_THREADS, ALL_THREADS = BLOCK * CLUSTER;
alignas(128) unsigned char cluster_memory[CLUSTER][1 << 18];

inline int this_rank() { return threadIdx.x / BLOCK; }
inline unsigned char* this_memory() { return cluster_memory[this_rank()]; }

struct ThisThread { operator unsigned() const { return threadIdx.x % BLOCK; } };
struct ThisBlock { operator unsigned() const { return blockIdx.x * CLUSTER + this_rank(); } };
const struct { ThisThread x; } this_thread;
const struct { ThisBlock x; } this_block;

// An address has its block's rank + 1 above bit 24, or 0 for the block that asks.
inline unsigned char* at_address(unsigned address) {
    return cluster_memory[address >> 24 ? (address >> 24) - 1 : this_rank()] + (address & 0xffffff);
}

// A barrier lies in the 8 bytes of the real one. Half of the messages are written at once, which finds who still reads
// what they overwrite; the others when all have come, which finds who does not wait.
struct Barrier { int phase, missing; };
struct Message { float4 value; unsigned to; };
struct Messages { int count; Message held[4 * BLOCK]; } late[CLUSTER][16];

inline void count(unsigned address, int bytes, bool arrives) {
    unsigned char* place = at_address(address);
    Barrier& barrier = *reinterpret_cast<Barrier*>(place);
    barrier.missing += bytes - (arrives ? 1 << 28 : 0);
    if (barrier.missing) return;
    ++barrier.phase;
    barrier.missing = 1 << 28;
    Messages& messages = late[(place - cluster_memory[0]) / sizeof cluster_memory[0]][address / 8 % 16];
    for (int i = 0; i < messages.count; ++i)
        std::memcpy(at_address(messages.held[i].to), &messages.held[i].value, 16);
    messages.count = 0;
}

inline void hold(Messages& messages, const Message& message) {
    if (messages.count == sizeof messages.held / sizeof message) fail("more messages than there is room for");
    messages.held[messages.count++] = message;
}

inline void emulated_init(unsigned address) { *reinterpret_cast<Barrier*>(at_address(address)) = {0, 1 << 28}; }
inline void emulated_expect(unsigned address, int bytes) { count(address, bytes, true); }
// The lanes of a warp meet first: one of them may have sent what another one waits for.
inline void meet() {
    float nothing[4] = {};
    const unsigned none[4] = {};
    multiply_add(nothing, none, 0, 0);
}
inline void emulated_wait(unsigned address, unsigned parity) {
    meet();
    while (reinterpret_cast<Barrier*>(at_address(address))->phase % 2 == (int)parity) pause(AT_BARRIER);
}

inline void emulated_send(unsigned address, const float4& value, unsigned barrier) {
    if (address % 16 || (address ^ barrier) >> 24) fail("a message goes astray");
    if (threadIdx.x % 2) std::memcpy(at_address(address), &value, 16);
    else hold(late[(barrier >> 24) - 1][barrier / 8 % 16], {value, address});
    count(barrier, -16, false);
}

// Threads that come after the last one in the order of emulated.h have to wait for the next round, as the others do.
inline void emulated_cluster_barrier() {
    static int arrived, last;
    const int self = threadIdx.x, all = (arrived++ / ALL_THREADS + 1) * ALL_THREADS;
    last = self;
    do pause(AT_BARRIER);
    while (arrived < all);
    if (self > last) pause(AT_BARRIER);
}

// As in emulated_block.h.
inline float __shfl_sync(unsigned, float value, int lane) {
    static float shown[2][ALL_THREADS];
    static int turns[ALL_THREADS];
    const int self = threadIdx.x, turn = turns[self]++ % 2;
    shown[turn][self] = value;
    meet();
    return shown[turn][self / 32 * 32 + lane];
}
inline float __shfl_xor_sync(unsigned all, float value, int mask) {
    return __shfl_sync(all, value, threadIdx.x % 32 ^ mask);
}

#define __cvta_generic_to_shared(pointer) ((size_t)(pointer) - (size_t)this_memory())
#define threadIdx this_thread
#define blockIdx this_block
#define memory this_memory()

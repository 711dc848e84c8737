// A block of threads that run one after the other on a CPU, each until its next barrier or multiply-add.
#include "emulated_threads.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <vector>
#include <ucontext.h>

Index threadIdx, blockIdx;
alignas(16) unsigned char dynamic[1 << 17];

struct Copy { void* to; const float* from; int bytes; bool wanted; };

struct Thread {
    ucontext_t context;
    std::vector<char> stack;
    State state;
    float* sum;
    const unsigned* a;
    unsigned b[2];
    std::deque<std::vector<Copy>> groups;
    std::vector<Copy> asked;
};

static std::vector<Thread> threads;
static ucontext_t scheduler;
static void (*kernel)(void*);
static void* argument;
static int pack;

void fail(const char* what) {
    std::printf("%s\n", what);
    std::abort();
}

void pause(State state) {
    Thread& self = threads[threadIdx.x];
    self.state = state;
    swapcontext(&self.context, &scheduler);
}

void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    Thread& self = threads[threadIdx.x];
    self.sum = sum, self.a = a, self.b[0] = b0, self.b[1] = b1;
    pause(AT_MULTIPLY);
}

static float value_of(unsigned word, int half) {
    const unsigned bits = pack == 2 ? (half ? word & 0xffff0000u : word << 16) : word & 0xffffe000u;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

// By the tables of the PTX manual for m16n8k8 with tf32 and m16n8k16 with bf16, element by element.
static void multiply(Thread* lanes) {
    const int K = 8 * pack;
    double A[16][16], B[16][8];
    for (int lane = 0; lane < 32; ++lane) {
        const int group = lane >> 2, inside = lane % 4;
        for (int i = 0; i < 4 * pack; ++i) {
            int row, col;
            if (pack == 1) {
                row = i == 0 || i == 2 ? group : group + 8;
                col = i < 2 ? inside : inside + 4;
            } else {
                row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
                col = inside * 2 + (i & 1) + (i < 4 ? 0 : 8);
            }
            A[row][col] = value_of(lanes[lane].a[i / pack], i % pack);
        }
        for (int i = 0; i < 2 * pack; ++i) {
            const int row = pack == 1 ? inside + 4 * i : inside * 2 + (i & 1) + (i < 2 ? 0 : 8);
            B[row][group] = value_of(lanes[lane].b[i / pack], i % pack);
        }
    }
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i) {
            const int row = i < 2 ? lane >> 2 : (lane >> 2) + 8, col = lane % 4 * 2 + (i & 1);
            double total = lanes[lane].sum[i];
            for (int k = 0; k < K; ++k) total += A[row][k] * B[k][col];
            lanes[lane].sum[i] = (float)total;
        }
}

void copy_later(void* to, const float* from, int bytes, bool wanted) {
    threads[threadIdx.x].asked.push_back({to, from, bytes, wanted});
}

void commit() {
    Thread& self = threads[threadIdx.x];
    self.groups.push_back(std::move(self.asked));
    self.asked.clear();
}

void wait_for_copies(int left) {
    Thread& self = threads[threadIdx.x];
    for (; (int)self.groups.size() > left; self.groups.pop_front())
        for (const Copy& copy : self.groups.front()) {
            if (copy.wanted && (size_t)copy.from % copy.bytes) fail("a copy is not aligned");
            if (copy.wanted) std::memcpy(copy.to, copy.from, copy.bytes);
            else std::memset(copy.to, 0, copy.bytes);
        }
}

static void start() {
    kernel(argument);
    pause(DONE);
}

// Every warp goes from one multiply-add to the next together, and every block from one barrier to the next.
void run_blocks(int blocks, int count, int values_per_word, void (*body)(void*), void* given) {
    kernel = body, argument = given, pack = values_per_word;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
        for (size_t i = 0; i < sizeof dynamic; i += 4) std::memcpy(dynamic + i, "\xff\xff\xff\x7f", 4);
        threads = std::vector<Thread>(count);
        for (Thread& thread : threads) {
            thread.stack.resize(1 << 16);
            thread.state = RUNS;
            getcontext(&thread.context);
            thread.context.uc_stack.ss_sp = thread.stack.data();
            thread.context.uc_stack.ss_size = thread.stack.size();
            thread.context.uc_link = nullptr;
            makecontext(&thread.context, start, 0);
        }
        while (true) {
            for (int first = 0; first < count; first += 32) {
                Thread* lanes = &threads[first];
                while (true) {
                    for (int lane = 0; lane < 32; ++lane) {
                        threadIdx.x = first + lane;
                        if (lanes[lane].state == RUNS) swapcontext(&scheduler, &lanes[lane].context);
                    }
                    for (int lane = 1; lane < 32; ++lane)
                        if (lanes[lane].state != lanes[0].state) fail("lanes diverge");
                    if (lanes[0].state != AT_MULTIPLY) break;
                    multiply(lanes);
                    for (int lane = 0; lane < 32; ++lane) lanes[lane].state = RUNS;
                }
            }
            for (const Thread& thread : threads)
                if (thread.state != threads[0].state) fail("threads diverge");
            if (threads[0].state == DONE) break;
            for (Thread& thread : threads) thread.state = RUNS;
        }
    }
}

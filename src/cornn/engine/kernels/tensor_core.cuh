// The instructions of the tensor core kernels that have no C++ equivalent.
//
// A word is a register of an operand: one tf32 value, or two bf16 values. Sums are fp32.
#pragma once

constexpr int PACK = BF16 ? 2 : 1;  // values in a word

// Rounded to nearest: v[0], and with bf16 v[1] in the upper half.
__device__ __forceinline__ unsigned rounded(const float* v) {
    unsigned word;
#if BF16
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(v[1]), "f"(v[0]));
#else
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(v[0]));
#endif
    return word;
}

// sum += A B, of 16 x 8: A is 16 rows of 8 words, B is 8 words of 8 columns. Lane 4 g + t holds of A the words t and t
// + 4 of the rows g and g + 8 (a[0]: row g, word t; a[1]: g + 8, t; a[2]: g, t + 4; a[3]: g + 8, t + 4), of B the words
// t and t + 4 of column g, and of the sum the columns 2 t and 2 t + 1 of row g, then of row g + 8.
__device__ __forceinline__ void multiply_add(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
#if BF16
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
#else
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
#endif
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Starts a copy of BYTES (4 or 8) from device to shared memory, which is complete after `wait`. If not `wanted`, the
// result is 0 and the address is not read.
template <int BYTES>
__device__ __forceinline__ void copy_ahead(void* to, const float* from, bool wanted) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(to);
    const int bytes = wanted ? BYTES : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(BYTES), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all but the last `LEFT` committed groups of copies are complete.
template <int LEFT>
__device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

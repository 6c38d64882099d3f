// What a warp does together on tensor cores, for CUDA text that runs as C++ on a processor (host.hpp): mma.sync and ldmatrix.
//
// All lanes bring their registers; once everybody is there, the whole tile is computed, by the rule of targets/tensor_rows.py and with
// the same bits (which is what the interpreter does). Layouts are those of the PTX ISA, written out here a second time, so that an error
// in either place shows.
#pragma once

extern "C" double ldexp(double, int), trunc(double);

namespace tilewright_tensor {
using namespace tilewright_host;

// Elements: their size, the least exponent of normal numbers, and the number that bits mean.
struct Bf16 {
    static constexpr int SIZE = 2, LEAST = -126;
    static double value(uint32_t x) { return bits<float>(x << 16); }
};
// A float of `EXPONENT` and `FRACTION` bits with infinities
template <int EXPONENT, int FRACTION> static double small_float(uint32_t x) {
    const int bias = (1 << (EXPONENT - 1)) - 1, e = (int)(x >> FRACTION & ((1u << EXPONENT) - 1)), f = (int)(x & ((1u << FRACTION) - 1));
    const double sign = x >> (EXPONENT + FRACTION) & 1 ? -1.0 : 1.0;
    if (e == (1 << EXPONENT) - 1) return f ? (double)__builtin_nan("") : sign * __builtin_inf();
    return sign * ldexp(e ? f + (1 << FRACTION) : f, (e ? e : 1) - bias - FRACTION);
}
struct F16 {
    static constexpr int SIZE = 2, LEAST = -14;
    static double value(uint32_t x) { return small_float<5, 10>(x); }
};
struct E5m2 {
    static constexpr int SIZE = 1, LEAST = -14;
    static double value(uint32_t x) { return small_float<5, 2>(x); }
};
struct E4m3 {  // no infinities; one NaN of each sign
    static constexpr int SIZE = 1, LEAST = -6;
    static double value(uint32_t x) {
        const int e = (int)(x >> 3 & 15), f = (int)(x & 7);
        if ((x & 127) == 127) return __builtin_nan("");
        return (x & 128 ? -1.0 : 1.0) * ldexp(e ? f + 8 : f, (e ? e : 1) - 10);
    }
};
struct Tf32 {  // float32 whose lowest 13 bits do not count
    static constexpr int SIZE = 4, LEAST = -126;
    static double value(uint32_t x) { return bits<float>(x & 0xFFFFE000u); }
};
struct F32 {
    static constexpr int SIZE = 4, LEAST = -126;
    static double value(uint32_t x) { return bits<float>(x); }
    static uint32_t rounded(double x) {  // toward zero; beyond the largest number infinity
        float f = (float)x;
        if (__builtin_fabs((double)f) > __builtin_fabs(x) && __builtin_fabs(x) < 0x1p128) f = bits<float>(bits<uint32_t>(f) - 1u);
        return bits<uint32_t>(f);
    }
    static constexpr uint32_t NOT_A_NUMBER = 0x7FFFFFFF, INFINITE = 0x7F800000, NEGATIVE = 0x80000000;
};
struct E8m13 : F32 {  // float32 cut to 13 bits of fraction
    static uint32_t rounded(double x) { return F32::rounded(x) & 0xFFFFFC00u; }
};
struct Half : F16 {
    static uint32_t rounded(double x) {  // to nearest even
        const uint32_t sign = bits<uint64_t>(x) >> 63 ? 0x8000u : 0u;
        const double size = __builtin_fabs(x);
        if (size >= 65520.0) return sign | INFINITE;
        int e = size < 0x1p-14 ? -14 : (int)(bits<uint64_t>(size) >> 52) - 1023;
        // a whole number of 1024ths of 2^e: adding 2^52 rounds it
        volatile double whole = ldexp(size, 10 - e) + 0x1p52;
        const uint32_t n = (uint32_t)(whole - 0x1p52);
        return sign | (n + ((uint32_t)(e + 14) << 10));
    }
    static constexpr uint32_t NOT_A_NUMBER = 0x7FFF, INFINITE = 0x7C00, NEGATIVE = 0x8000;
};
struct S8 {
    static constexpr int SIZE = 1;
    static int value(uint32_t x) { return (int8_t)x; }
};
struct U8 {
    static constexpr int SIZE = 1;
    static int value(uint32_t x) { return (uint8_t)x; }
};

// What a lane brings, and gets back in `c`.
struct Registers {
    uint32_t c[4], a[4], b[2];
};
template <class T> static inline uint32_t element(const uint32_t* registers, int i) {
    const int word = 4 / T::SIZE;
    const uint32_t x = registers[i / word] >> (i % word * 8 * T::SIZE);
    return T::SIZE == 4 ? x : x & ((1u << (8 * T::SIZE % 32)) - 1);
}
static inline const Registers& of(Thread* warp, int lane) { return *(const Registers*)warp[lane].brings; }
// Element (row, k) of A and (k, column) of B: PTX ISA, "Matrix Fragments for mma.m16n8k*". A register holds `word` neighbours in k.
template <class T> static inline uint32_t of_a(Thread* warp, int row, int k) {
    const int word = 4 / T::SIZE, far = k / (4 * word), near = k % (4 * word);
    return element<T>(of(warp, row % 8 * 4 + near / word).a, (far * 2 + row / 8) * word + near % word);
}
template <class T> static inline uint32_t of_b(Thread* warp, int k, int column) {
    const int word = 4 / T::SIZE, far = k / (4 * word), near = k % (4 * word);
    return element<T>(of(warp, column * 4 + near / word).b, far * word + near % word);
}

static inline void everybody(Thread* warp, unsigned count) {
    for (unsigned l = 0; l < WARP; l++)
        if (l >= count || !(warp[0].met >> l & 1)) fail("line %d: %s without lane %u of the warp", warp[0].line, warp[0].what, l);
}

// The exponent field of a number whose type's normal numbers begin at 2^least; a subnormal has that of the least of them.
static inline int field(double x, int least) {
    const int e = (int)(bits<uint64_t>(x) >> 52 & 2047) - 1023;
    return e < least ? least : e;
}

// WIDENED: operands of 8 bits become F16 first, and the lower two of each four neighbours in k are added before the upper two.
template <class A, class B, class C, int TERMS, int FRACTION, int ZERO, bool WIDENED> static void multiply(Thread* warp, unsigned count) {
    everybody(warp, count);
    constexpr int K = 32 / A::SIZE;
    static double x[16][K], y[8][K];
    static int ex[16][K], ey[8][K];
    for (int k = 0; k < K; k++) {
        const int from = WIDENED ? k % 16 / 2 * 4 + k / 16 * 2 + k % 2 : k;
        for (int i = 0; i < 16; i++) x[i][k] = A::value(of_a<A>(warp, i, from)), ex[i][k] = field(x[i][k], WIDENED ? F16::LEAST : A::LEAST);
        for (int j = 0; j < 8; j++) y[j][k] = B::value(of_b<B>(warp, from, j)), ey[j][k] = field(y[j][k], WIDENED ? F16::LEAST : B::LEAST);
    }
    uint32_t out[16][8];
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            uint32_t sum = element<C>(of(warp, i % 8 * 4 + j / 2).c, i / 8 * 2 + j % 2);
            for (int first = 0; first < K; first += TERMS) {
                const double c = C::value(sum);
                double p[TERMS], plain = 0, total;
                int top = c == 0 ? ZERO : field(c, C::LEAST);
                for (int k = 0; k < TERMS; k++) {
                    p[k] = x[i][first + k] * y[j][first + k];  // exact
                    plain += p[k];
                    const int e = p[k] == 0 ? ZERO : ex[i][first + k] + ey[j][first + k];
                    if (e > top) top = e;
                }
                plain += c;
                if (plain != plain) { sum = C::NOT_A_NUMBER; continue; }
                if (__builtin_isinf(plain)) { sum = C::INFINITE | (plain < 0 ? C::NEGATIVE : 0); continue; }
                total = trunc(ldexp(c, FRACTION - top));
                for (int k = 0; k < TERMS; k++) total += trunc(ldexp(p[k], FRACTION - top));
                sum = C::rounded(ldexp(total + 0.0, top - FRACTION));
            }
            out[i][j] = sum;
        }
    for (unsigned l = 0; l < WARP; l++) {
        Registers& r = *(Registers*)warp[l].brings;
        const uint32_t* upper = &out[l / 4][l % 4 * 2];
        const uint32_t* lower = &out[l / 4 + 8][l % 4 * 2];
        if (C::SIZE == 2) r.c[0] = upper[0] | upper[1] << 16, r.c[1] = lower[0] | lower[1] << 16;
        else r.c[0] = upper[0], r.c[1] = upper[1], r.c[2] = lower[0], r.c[3] = lower[1];
    }
}
template <class A, class B> static void multiply_integers(Thread* warp, unsigned count) {
    everybody(warp, count);
    uint32_t out[32][4];
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++) {
            const int row = l / 4 + i / 2 * 8, column = l % 4 * 2 + i % 2;
            uint32_t sum = of(warp, l).c[i];  // wraps
            for (int k = 0; k < 32; k++) sum += (uint32_t)(A::value(of_a<A>(warp, row, k)) * B::value(of_b<B>(warp, k, column)));
            out[l][i] = sum;
        }
    for (int l = 0; l < 32; l++) memcpy(((Registers*)warp[l].brings)->c, out[l], sizeof out[l]);
}

template <class T>
static inline void mma(int line, const char* what, Whole whole, T& c0, T& c1, T& c2, T& c3, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    Registers r = {{bits<uint32_t>(c0), bits<uint32_t>(c1), bits<uint32_t>(c2), bits<uint32_t>(c3)}, {a0, a1, a2, a3}, {b0, b1}};
    exchange(line, what, ~0u, (uint64_t)&r, whole);
    c0 = bits<T>(r.c[0]), c1 = bits<T>(r.c[1]), c2 = bits<T>(r.c[2]), c3 = bits<T>(r.c[3]);
}
// accumulators of 16 bits, two a register
static inline void mma(int line, const char* what, Whole whole, uint32_t& c0, uint32_t& c1, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    Registers r = {{c0, c1}, {a0, a1, a2, a3}, {b0, b1}};
    exchange(line, what, ~0u, (uint64_t)&r, whole);
    c0 = r.c[0], c1 = r.c[1];
}

// ldmatrix: lane 8·i + r names row r of matrix i, 16 bytes; a lane gets a 32-bit word of each matrix.
struct Rows {
    const char* row;
    int count;
    uint32_t got[4];
};
template <bool TRANSPOSED> static void read_matrices(Thread* warp, unsigned count) {
    everybody(warp, count);
    const int matrices = ((Rows*)warp[0].brings)->count;
    for (int l = 0; l < 8 * matrices; l++) {
        const uint64_t at = (uint64_t)((Rows*)warp[l].brings)->row;
        if (at % 16) now = &warp[l], fail("line %d: %s from an address that is no multiple of 16", warp[l].line, warp[l].what);
    }
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < matrices; i++) {
            Rows& mine = *(Rows*)warp[l].brings;
            auto row = [&](int r) { return ((const Rows*)warp[8 * i + r].brings)->row; };
            if (!TRANSPOSED) {
                memcpy(&mine.got[i], row(l / 4) + l % 4 * 4, 4);
                continue;
            }
            uint16_t pair[2];
            for (int e = 0; e < 2; e++) memcpy(&pair[e], row(l % 4 * 2 + e) + l / 4 * 2, 2);
            memcpy(&mine.got[i], pair, 4);
        }
}
template <bool TRANSPOSED, class... R> static inline void ldmatrix(int line, const char* what, const void* row, R&... out) {
    Rows mine = {(const char*)row, (int)sizeof...(out), {}};
    exchange(line, what, ~0u, (uint64_t)&mine, read_matrices<TRANSPOSED>);
    int i = 0;
    ((out = mine.got[i++]), ...);
}

}  // namespace tilewright_tensor

// Hopper's asynchronous units for CUDA text that runs as C++ on a processor: `host.hpp` comes first. mbarriers,
// boxes by TMA, wgmma, barriers of roles and clusters.
//
// What is asynchronous happens as late as it may. A box lands when all threads wait; until then its place holds 0xFF bytes (NaN).
// wgmma reads shared memory when it is issued and once more when it is waited for: a difference is a fault, and so it is for a box that
// is stored. Accumulators are NaN in between. An mbarrier's word counts arrivals and bytes. Proxies are not modelled (the interpreter
// knows who has fenced), nor is setmaxnreg.
#pragma once
#include <stdlib.h>
#include "host_tensor.hpp"

struct TensorMap;

namespace tilewright_hopper {
using namespace tilewright_host;

// Memory of groups --------------------------------------------------------------------------------------------------------
static inline uint64_t offset(const void* at) { return (uint64_t)at - (uint64_t)dynamic; }
static inline char* in_group(const void* at, unsigned rank) { return memories[rank] + offset(at); }
static inline uint64_t swizzled(uint64_t at, unsigned swizzle) { return swizzle ? at ^ (at >> 3 & (swizzle / 16 - 1) << 4) : at; }

// mbarriers ---------------------------------------------------------------------------------------------------------------
// arrivals of a phase (bits 0-19), arrivals missing (20-39), bytes missing (40-62, plus 1 << 22), parity of the phase (63)
struct Word {
    uint32_t count, missing;
    int bytes;
    uint32_t parity;
};
static inline Word word_at(const void* bar) {
    const uint64_t w = *(const uint64_t*)bar;
    Word x = {(uint32_t)(w & 0xFFFFF), (uint32_t)(w >> 20 & 0xFFFFF), (int)(w >> 40 & 0x7FFFFF) - (1 << 22), (uint32_t)(w >> 63)};
    if (x.count == 0xFFFFF || !x.count) fail("an mbarrier that nobody set up");
    return x;
}
static inline void put(void* bar, Word x) {
    if (!x.missing && !x.bytes) x.missing = x.count, x.parity ^= 1;
    *(uint64_t*)bar = x.count | (uint64_t)x.missing << 20 | (uint64_t)(x.bytes + (1 << 22)) << 40 | (uint64_t)x.parity << 63;
}
static inline void mbarrier_init(void* bar, unsigned arrivals) { *(uint64_t*)bar = arrivals | (uint64_t)arrivals << 20 | (uint64_t)(1 << 22) << 40; }
static inline void mbarrier_arrive(void* bar, int bytes) {
    Word x = word_at(bar);
    if (!x.missing) fail("more threads arrive at an mbarrier than it counts");
    x.missing--, x.bytes += bytes;
    put(bar, x);
}
constexpr unsigned ROUNDS = 64;  // in which all threads wait, before it is said that they do so for ever
static inline void running(unsigned rank, const char* what) {
    if (rank >= cluster_size) fail("%s group %u of a cluster of %u", what, rank, cluster_size);
    for (unsigned i = 0; i < group_size.x; i++)
        if (threads[rank * group_size.x + i].state != DONE) return;
    fail("%s group %u of the cluster, which has ended", what, rank);
}
static inline void mbarrier_arrive_at(void* bar, unsigned rank) {
    running(rank, "arrives at an mbarrier of");
    mbarrier_arrive(in_group(bar, rank), 0);
}

// Others go first, so that who gives something back too early is found.
static inline void last_of_all(const char* what) {
    for (int i = 0; i < 2; i++) poll(0, what);
}

// Boxes -------------------------------------------------------------------------------------------------------------------
// What `host.py` writes for a map: dimensions innermost first, pitches in bytes.
struct Map {
    uint64_t base, dims[5], pitches[4];
    uint16_t box[5];
    uint8_t rank, size, swizzle, unused;
};
static_assert(sizeof(Map) <= 128, "a map has 128 bytes");
struct Box {
    Map map;
    char* at;
    void* bar;
    int first[5];
    Thread* thread;
    unsigned long group;
    char* seen;  // of a box that is stored: what it was
};
static Box loads[512], stores[512];
static unsigned load_count, store_count;
static unsigned long stores_committed[MOST];

static inline unsigned bytes_of(const Map& m) {
    unsigned n = m.size;
    for (int i = 0; i < m.rank; i++) n *= m.box[i];
    return n;
}
// Calls f(place in shared memory, place in the array or nullptr) for each element of a box.
template <class F> static inline void each(const Box& b, F f) {
    const Map& m = b.map;
    const unsigned count = bytes_of(m) / m.size;
    char* const group = b.at - (uint64_t)b.at % 1024;
    for (unsigned n = 0; n < count; n++) {
        unsigned rest = n;
        bool inside = true;
        uint64_t from = m.base;
        for (int i = 0; i < m.rank; i++) {
            const long long x = (long long)b.first[i] + rest % m.box[i];
            rest /= m.box[i];
            inside &= x >= 0 && x < (long long)m.dims[i];
            from += (uint64_t)x * (i ? m.pitches[i - 1] : m.size);
        }
        f(group + swizzled((uint64_t)(b.at - group) + n * m.size, m.swizzle), inside ? (char*)from : nullptr);
    }
}
static inline Box box(const void* map, const void* at, const int* first) {
    Box b = {};
    memcpy(&b.map, map, sizeof b.map);
    b.at = (char*)at, b.thread = now;
    for (int i = 0; i < b.map.rank; i++) b.first[i] = first[i];
    const unsigned align = b.map.swizzle ? 8 * b.map.swizzle : 128;
    if ((uint64_t)at % align) fail("a box with swizzle %u at an address that is no multiple of %u", b.map.swizzle, align);
    return b;
}
static inline void box_load(void* to, const void* map, void* bar, unsigned groups, const int* first) {
    Box b = box(map, to, first);
    for (unsigned r = 0; r < cluster_size; r++) {
        if (groups ? !(groups >> r & 1) : dynamic != memories[r]) continue;
        running(r, "sends a box to");
        if (load_count == 512) fail("more than 512 boxes under way");
        b.at = in_group(to, r), b.bar = in_group(bar, r);
        memset(b.at, 0xFF, bytes_of(b.map));
        loads[load_count++] = b;
    }
}
static inline void land(unsigned i) {
    const Box b = loads[i];
    loads[i] = loads[--load_count];
    each(b, [&](char* to, const char* from) { from ? (void)memcpy(to, from, b.map.size) : (void)memset(to, 0, b.map.size); });
    Word x = word_at(b.bar);
    x.bytes -= (int)bytes_of(b.map);
    put(b.bar, x);
}
static inline void mbarrier_wait(void* bar, unsigned parity) {
    if (parity > 1) fail("a parity of %u", parity);
    while (word_at(bar).parity == parity) {
        if (idle > 1 && load_count) {
            land(load_count - 1);
            continue;
        }
        const Word x = word_at(bar);
        if (idle > ROUNDS) fail("waits for the mbarrier at byte %llu, where %u arrivals and %d bytes are missing and nobody can go on", (unsigned long long)offset(bar), x.missing, x.bytes);
        poll(0, "an mbarrier");
    }
}
static inline void box_store(const void* map, const void* from, const int* first) {
    Box b = box(map, from, first);
    if (store_count == 512) fail("more than 512 boxes under way");
    b.group = stores_committed[now - threads];
    b.seen = (char*)malloc(bytes_of(b.map));
    unsigned at = 0;
    each(b, [&](char* x, char*) { memcpy(b.seen + at, x, b.map.size), at += b.map.size; });
    stores[store_count++] = b;
}
static inline void box_commit() { stores_committed[now - threads]++; }
static inline void box_wait(unsigned left) {
    last_of_all("TMA to read a box");
    unsigned kept = 0;
    for (unsigned i = 0; i < store_count; i++) {
        const Box b = stores[i];
        if (b.thread != now || b.group + left >= stores_committed[now - threads]) {
            stores[kept++] = b;
            continue;
        }
        unsigned at = 0;
        each(b, [&](char* x, char* to) {
            if (memcmp(b.seen + at, x, b.map.size)) fail("shared memory changed while TMA read it");
            if (to) memcpy(to, x, b.map.size);
            at += b.map.size;
        });
        free(b.seen);
    }
    store_count = kept;
}
static inline void proxy_fence() {}

// Barriers ----------------------------------------------------------------------------------------------------------------
struct Meeting {
    unsigned came, turn, wanted;
};
static Meeting meetings[8][16], whole_cluster;
static inline void come(Meeting& m, unsigned wanted, const char* what) {
    if (m.came && m.wanted != wanted) fail("%s of %u threads, and others wait for %u", what, wanted, m.wanted);
    m.wanted = wanted;
    if (++m.came == wanted) {
        m.came = 0, m.turn++;
        return;
    }
    for (const unsigned turn = m.turn; m.turn == turn;) poll(0, what);
}
static inline void meet(unsigned number, unsigned count) { come(meetings[now->rank][number % 16], count, "a barrier of a role"); }
static inline void cluster_barrier() { come(whole_cluster, cluster_size * group_size.x, "the barrier of the cluster"); }

// Products ----------------------------------------------------------------------------------------------------------------
constexpr unsigned WARPGROUP = 128;
struct Step {
    unsigned n, k, left;                    // left: threads that have not taken their results
    unsigned long group;
    bool add;
    void (*read)(const Step&, uint32_t*, uint32_t*);  // the operands' elements out of shared memory (A where it is there)
    void (*value)(Step&);                   // elements as numbers
    uint32_t (*sum)(const Step&, uint32_t, unsigned, unsigned);
    uint64_t a, b;
    bool a_there;
    uint32_t *ra, *rb;                      // elements of A (64, k), B (n, k)
    double *x, *y;
    int *ex, *ey;
};
struct Bring {
    uint64_t a, b;
    bool add;
    void* what;
};
struct Warpgroup {
    Bring bring;
    unsigned came, turn;
    uint32_t words[WARPGROUP][4];
    Step* latest;
    bool fenced;
};
static Warpgroup warpgroups[MOST / WARPGROUP];
struct Flight {
    void* d;                                // the accumulator
    unsigned count;
    uint32_t values[128];
    Step* steps[64];
    unsigned step_count;
};
static Flight* flights[MOST];               // of a thread, eight at most
static unsigned flight_count[MOST];
static unsigned long committed[MOST];

static inline Warpgroup& own() { return warpgroups[(now - threads) / WARPGROUP]; }
// All threads of the warpgroup come with equal operands; the last one does what is to be done once.
template <class F> static inline void together(const char* what, Bring bring, F once) {
    Warpgroup& g = own();
    if (!g.came) g.bring = bring;
    if (g.bring.what != bring.what) fail("threads of a warpgroup come to %s, and others of it to another instruction", what);
    if (g.bring.a != bring.a || g.bring.b != bring.b || g.bring.add != bring.add) fail("threads of a warpgroup bring different operands to %s", what);
    if (++g.came == WARPGROUP) {
        once(g);
        g.came = 0, g.turn++;
        return;
    }
    for (const unsigned turn = g.turn; g.turn == turn;) poll(0, what);
}
static inline uint64_t wgmma_operand(const void* at, unsigned lead, unsigned stride) {
    return (offset(at) & 0x3FFFF) >> 4 | (uint64_t)(lead >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | 1ull << 62;
}
// Elements (rows, k) of an operand: PTX ISA, "Matrix Descriptor Format", with the swizzle of 128 bytes.
static inline void operand(uint64_t d, unsigned rows, unsigned k, unsigned size, bool across, uint32_t* out) {
    const uint64_t start = (d & 0x3FFF) << 4, lead = (d >> 16 & 0x3FFF) << 4, stride = (d >> 32 & 0x3FFF) << 4;
    if (start & 0x380) fail("an operand at byte %llu of shared memory is no start of eight rows of 128 bytes", (unsigned long long)start);
    for (unsigned r = 0; r < rows; r++)
        for (unsigned i = 0; i < k; i++) {
            const uint64_t at = across ? start + r / 64 * lead + i / 8 * stride + i % 8 * 128 + r % 64 * size : start + r / 8 * stride + r % 8 * 128 + i * size;
            uint32_t x = 0;
            memcpy(&x, dynamic + swizzled(at, 128), size);
            out[r * k + i] = x;
        }
}
static inline void wgmma_fence() {
    own().fenced = true;
}
static inline void wgmma_commit() { committed[now - threads]++; }

using namespace tilewright_tensor;
// How Hopper adds (targets/tensor_rows.py): terms at once, bits, the exponent of a zero, the result
template <class A> struct Adds { static constexpr int TERMS = 16, FRACTION = 25; typedef F32 C; };
template <> struct Adds<Tf32> { static constexpr int TERMS = 8, FRACTION = 25; typedef F32 C; };
template <> struct Adds<E4m3> { static constexpr int TERMS = 32, FRACTION = 13; typedef E8m13 C; };
template <> struct Adds<E5m2> { static constexpr int TERMS = 32, FRACTION = 13; typedef E8m13 C; };
constexpr int NOTHING = -133;
template <class A> struct Integer { static constexpr bool YES = false; };
template <> struct Integer<S8> { static constexpr bool YES = true; };
template <> struct Integer<U8> { static constexpr bool YES = true; };
template <class A> static uint32_t float_sum(const Step& s, uint32_t sum, unsigned row, unsigned column) {
    typedef typename Adds<A>::C C;
    constexpr int TERMS = Adds<A>::TERMS, FRACTION = Adds<A>::FRACTION;
    for (unsigned first = 0; first < s.k; first += TERMS) {
        const double *x = s.x + row * s.k + first, *y = s.y + column * s.k + first, c = C::value(sum);
        const int *ex = s.ex + row * s.k + first, *ey = s.ey + column * s.k + first;
        double p[TERMS], plain = 0, total;
        int top = c == 0 ? NOTHING : field(c, C::LEAST);
        for (int k = 0; k < TERMS; k++) {
            p[k] = x[k] * y[k];  // exact
            plain += p[k];
            const int e = p[k] == 0 ? NOTHING : ex[k] + ey[k];
            if (e > top) top = e;
        }
        plain += c;
        if (plain != plain) { sum = C::NOT_A_NUMBER; continue; }
        if (__builtin_isinf(plain)) { sum = C::INFINITE | (plain < 0 ? C::NEGATIVE : 0); continue; }
        total = trunc(ldexp(c, FRACTION - top));
        for (int k = 0; k < TERMS; k++) total += trunc(ldexp(p[k], FRACTION - top));
        sum = C::rounded(ldexp(total + 0.0, top - FRACTION));
    }
    return sum;
}
template <class A, class B> static uint32_t integer_sum(const Step& s, uint32_t sum, unsigned row, unsigned column) {
    for (unsigned k = 0; k < s.k; k++) sum += (uint32_t)(A::value(s.ra[row * s.k + k]) * B::value(s.rb[column * s.k + k]));  // wraps
    return sum;
}
template <class A, class B> static void numbers(Step& s) {
    for (unsigned i = 0; i < 64 * s.k; i++) s.x[i] = A::value(s.ra[i]), s.ex[i] = field(s.x[i], A::LEAST);
    for (unsigned i = 0; i < s.n * s.k; i++) s.y[i] = B::value(s.rb[i]), s.ey[i] = field(s.y[i], B::LEAST);
}
template <class A, class B, bool INTEGERS> struct Meaning {
    static void numbers_of(Step& s) { numbers<A, B>(s); }
    static uint32_t sum(const Step& s, uint32_t c, unsigned i, unsigned j) { return float_sum<A>(s, c, i, j); }
};
template <class A, class B> struct Meaning<A, B, true> {
    static void numbers_of(Step&) {}
    static uint32_t sum(const Step& s, uint32_t c, unsigned i, unsigned j) { return integer_sum<A, B>(s, c, i, j); }
};
template <class A, class B, int TA, int TB> static void read(const Step& s, uint32_t* a, uint32_t* b) {
    if (s.a_there) operand(s.a, 64, s.k, A::SIZE, TA, a);
    operand(s.b, s.n, s.k, B::SIZE, TB, b);
}

static inline Flight& flight(void* d, unsigned count, bool& made) {
    const unsigned t = now - threads;
    if (!flights[t]) flights[t] = (Flight*)malloc(8 * sizeof(Flight));
    made = false;
    for (unsigned i = 0; i < flight_count[t]; i++)
        if (flights[t][i].d == d) return flights[t][i];
    if (flight_count[t] == 8) fail("more than 8 accumulators under way");
    made = true;
    Flight& f = flights[t][flight_count[t]++];
    f.d = d, f.count = count, f.step_count = 0;
    memcpy(f.values, d, 4 * count);
    for (unsigned i = 0; i < count; i++) ((uint32_t*)d)[i] = 0x7FC0BEEF;  // NaN until it is done
    return f;
}
template <unsigned N, unsigned K, class A, class B, int TA, int TB>
static void begin(void* d, unsigned count, const uint32_t* words, uint64_t a, uint64_t b, bool add) {
    Warpgroup& g = own();
    const unsigned t = now - threads;
    if (!g.fenced) fail("a wgmma with no wgmma_fence since registers may have changed");
    if (words) memcpy(g.words[t % WARPGROUP], words, 16);
    auto same = &read<A, B, TA, TB>;
    together("wgmma", {a, b, add, (void*)same}, [&](Warpgroup& g) {
        Step* s = g.latest = (Step*)calloc(1, sizeof(Step));
        s->n = N, s->k = K, s->left = WARPGROUP, s->group = committed[t], s->add = add, s->a = a, s->b = b, s->a_there = !words;
        s->read = same, s->value = Meaning<A, B, Integer<A>::YES>::numbers_of, s->sum = Meaning<A, B, Integer<A>::YES>::sum;
        s->ra = (uint32_t*)calloc((64 + N) * K, 4), s->rb = s->ra + 64 * K;
        s->x = (double*)calloc((64 + N) * K, 8), s->y = s->x + 64 * K;
        s->ex = (int*)calloc((64 + N) * K, 4), s->ey = s->ex + 64 * K;
        s->read(*s, s->ra, s->rb);
        if (words)
            for (unsigned i = 0; i < 64 * K; i++) {
                // PTX ISA, "Register Fragments": a warp has sixteen rows, as A of mma.m16n8
                const int word = 4 / A::SIZE, row = i / K, k = i % K, far = k / (4 * word), near = k % (4 * word);
                s->ra[i] = element<A>(g.words[row / 16 * 32 + row % 8 * 4 + near / word], (far * 2 + row / 8 % 2) * word + near % word);
            }
        s->value(*s);
    });
    bool made;
    Flight& f = flight(d, count, made);
    if (f.step_count == 64) fail("more than 64 products under way");
    f.steps[f.step_count++] = g.latest;
}
static inline void finish(Flight& f) {
    const unsigned t = (now - threads) % WARPGROUP, w = t / 32, l = t % 32;
    for (unsigned k = 0; k < f.step_count; k++) {
        Step& s = *f.steps[k];
        for (unsigned i = 0; i < f.count; i++) {
            const unsigned row = w * 16 + l / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + l % 4 * 2 + i % 2;
            f.values[i] = s.sum(s, s.add ? f.values[i] : 0u, row, column);
        }
        if (--s.left == 0) free(s.ra), free(s.x), free(s.ex), free(f.steps[k]);
    }
    memcpy(f.d, f.values, 4 * f.count);
}
static void check(const Flight& f) {
    for (unsigned k = 0; k < f.step_count; k++) {
        const Step& s = *f.steps[k];
        const size_t count = (64 + s.n) * s.k;
        uint32_t* again = (uint32_t*)calloc(count, 4);
        if (!s.a_there) memcpy(again, s.ra, 64 * s.k * 4);
        s.read(s, again, again + 64 * s.k);
        const bool changed = memcmp(again, s.ra, 4 * count);
        free(again);
        if (changed) fail("shared memory changed while a wgmma read it");
    }
}
static inline void wgmma_wait(unsigned left) {
    last_of_all("wgmma_wait");
    const unsigned t = now - threads;
    auto over = [&](const Flight& f) { return f.steps[f.step_count - 1]->group + left < committed[t]; };
    together("wgmma_wait", {left, 0, false, (void*)&check}, [&](Warpgroup&) {
        for (unsigned i = 0; i < flight_count[t]; i++)
            if (over(flights[t][i])) check(flights[t][i]);
    });
    unsigned kept = 0;
    for (unsigned i = 0; i < flight_count[t]; i++) {
        if (over(flights[t][i])) finish(flights[t][i]);
        else if (kept++ != i) flights[t][kept - 1] = flights[t][i];
    }
    flight_count[t] = kept;
    own().fenced = false;
}
template <class T, int COUNT> static inline void wgmma_keep(T (&d)[COUNT]) {
    const unsigned t = now - threads;
    for (unsigned i = 0; i < flight_count[t]; i++)
        if (flights[t][i].d == (void*)d) fail("an accumulator is used before its products are done");
}
template <unsigned N, unsigned K, class A, class B, int TA, int TB, class T, int COUNT>
static inline void wgmma(T (&d)[COUNT], uint64_t a, uint64_t b, bool add) {
    begin<N, K, A, B, TA, TB>(d, COUNT, nullptr, a, b, add);
}
template <unsigned N, unsigned K, class A, class B, int TA, int TB, class T, int COUNT>
static inline void wgmma(T (&d)[COUNT], const unsigned (&a)[4], uint64_t b, bool add) {
    begin<N, K, A, B, TA, TB>(d, COUNT, a, 0, b, add);
}

static void nothing_under_way() {
    load_count = store_count = 0;
    memset(stores_committed, 0, sizeof stores_committed), memset(meetings, 0, sizeof meetings), memset(&whole_cluster, 0, sizeof whole_cluster);
    memset(warpgroups, 0, sizeof warpgroups), memset(flight_count, 0, sizeof flight_count), memset(committed, 0, sizeof committed);
}
static void all_over() {
    if (load_count) fail("the group ends while a box is on its way");
    if (store_count) fail("the group ends while TMA reads a box");
    for (unsigned t = 0; t < MOST; t++)
        if (flight_count[t]) fail("thread %u ends while its products are under way", t % group_size.x);
}
static const bool hopper_hooked = hook(nothing_under_way, all_over);

}  // namespace tilewright_hopper

// CUDA C++ as plain C++ on a processor, to check kernels where there is no GPU.
//
// A thread of a group is a fiber; groups run one after another, and the threads of one in turn, each until it waits or ends. A warp
// runs as far as it can before the next one does: warps that went in step because of their exchanges would hide a missing barrier.
// Barriers and warp exchanges check that everybody comes to the same line. A thread may also poll: it is tried again after the others.
// Shared memory is filled with 0xFF before each group. The order of groups, warps and threads can be reversed: two orders that disagree
// show a missing barrier. A fault (a signal, a failed check) ends the launch with a message, and not the process.
//
// What is checked is the logic of a kernel: there are no memory model, bank conflicts or timing here.
#pragma once
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>

#define TILEWRIGHT_HOST 1

// of the mathematical functions those that kernels call: in C++ <math.h> takes most of the time of a build
extern "C" {
float sqrtf(float), fabsf(float), floorf(float), rintf(float), fmaf(float, float, float);
double sqrt(double), fabs(double), floor(double), rint(double), fma(double, double, double);
}

namespace tilewright_host {

template <class To, class From>
static inline To bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "");
    To out;
    memcpy(&out, &x, sizeof out);
    return out;
}

static long long nanoseconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

struct Index {
    unsigned x, y, z;
};
enum State { READY, AT_BARRIER, AT_EXCHANGE, POLLING, DONE };
constexpr unsigned WARP = 32, MOST = 1024;
constexpr unsigned PATIENCE = 100000;  // rounds in which threads do nothing but poll
constexpr size_t STACK = 512 << 10, PAGE = 4096;

struct Thread;
using Whole = void (*)(Thread* warp, unsigned count);  // what is done once, by all lanes that met

struct Thread {
    ucontext_t context;
    Index index;
    unsigned rank;      // of its group in the cluster
    State state;
    int line;           // where it waits
    unsigned barriers;  // how many it came to
    const char* what;   // which exchange it is in, with which lanes (and which of them came), what it brings and what all of them brought
    unsigned mask, met;
    uint64_t brings, seen[WARP];
    Whole whole;
};

// one launch at a time: the caller holds a lock
static Thread threads[MOST];
static Thread* now;
static ucontext_t scheduler;
static Index group, group_size, grid_size;
static unsigned first_group;  // of the cluster
static char* stacks;
static char* dynamic;  // dynamic shared memory
static char* memories[8];  // that of each group of the cluster
static unsigned cluster_size;
static unsigned idle;  // rounds in which threads did nothing but poll
static const char* failure;
static char text[512];
static void (*body)(const void*, const uint64_t*);
static const void* kernel;
static const uint64_t* words;

extern "C" char __start_tilewright_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_tilewright_shared[] __attribute__((weak, visibility("hidden")));

[[noreturn]] static void leave() {
    setcontext(&scheduler);
    __builtin_trap();
}

// Ends the launch. `text` says why, and in which thread.
[[noreturn]] __attribute__((format(printf, 1, 2), cold)) static void fail(const char* format, ...) {
    int n = now ? snprintf(text, sizeof text, "group %u, thread %u: ", group.x, now->index.x) : snprintf(text, sizeof text, "group %u: ", group.x);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + n, sizeof text - n, format, arguments);
    va_end(arguments);
    failure = text;
    leave();
}

static void signalled(int number, siginfo_t* info, void*) {
    uint64_t at = (uint64_t)info->si_addr;
    uint64_t stack = now && stacks ? (uint64_t)stacks + (now - threads) * (STACK + PAGE) : 0;
    if (number == SIGFPE) fail("an integer division by zero");
    if (number == SIGILL) fail("an instruction that traps");
    if (stack && at >= stack && at < stack + PAGE) fail("more than %zu KiB of local variables", STACK >> 10);
    fail("an access to address 0x%llx, which it may not touch", (unsigned long long)at);  // the caller finds this number
}

static void yield() { swapcontext(&now->context, &scheduler); }

static void begin() {
    body(kernel, words);
    now->state = DONE;
    yield();
}

static inline void barrier(int line) {
    now->state = AT_BARRIER;
    now->line = line;
    now->barriers++;
    yield();
}

static inline unsigned lane() { return now->index.x % WARP; }

// Try again after the others' turn. What the thread waits for must be something that another thread does, or that happens by itself.
static inline void poll(int line, const char* what) {
    now->state = POLLING;
    now->line = line;
    now->what = what;
    yield();
}

// What every lane of `mask` brings, in `now->seen`. All of them must come to the same line. `whole` is called once, when they have.
static inline void exchange(int line, const char* what, unsigned mask, uint64_t brings, Whole whole = nullptr) {
    if (!(mask >> lane() & 1)) fail("line %d: %s with mask %08x, which leaves out its own lane %u", line, what, mask, lane());
    now->state = AT_EXCHANGE;
    now->line = line;
    now->what = what;
    now->mask = mask;
    now->brings = brings;
    now->whole = whole;
    yield();
}

// Whether some lanes of the warp went on. They do once every lane of their mask that has not ended is there.
static bool exchanged(Thread* warp, unsigned count) {
    bool any = false;
    for (unsigned i = 0; i < count; i++) {
        Thread& first = warp[i];
        if (first.state != AT_EXCHANGE) continue;
        bool all = true;
        for (unsigned l = 0; l < count && all; l++)
            if (first.mask >> l & 1 && warp[l].state != DONE) all = warp[l].state == AT_EXCHANGE && warp[l].line == first.line && warp[l].mask == first.mask;
        if (!all) continue;
        any = true;
        unsigned met = 0;
        for (unsigned l = 0; l < count; l++)
            if (first.mask >> l & 1 && warp[l].state == AT_EXCHANGE) met |= 1u << l;
        for (unsigned l = 0; l < count; l++) {
            if (!(met >> l & 1)) continue;
            for (unsigned s = 0; s < count; s++) warp[l].seen[s] = warp[s].brings;
            warp[l].met = met;
            warp[l].state = READY;
        }
        if (first.whole) first.whole(warp, count);
    }
    return any;
}

// Go on with the thread `now`, in its group.
static void resume() {
    group = {first_group + now->rank, 0, 0};
    dynamic = memories[now->rank];
    swapcontext(&scheduler, &now->context);
}

// Whether all of a group's threads went on, being at one barrier.
static bool released(Thread* threads, unsigned count) {
    Thread *waits = nullptr, *other = nullptr;
    for (unsigned i = 0; i < count; i++) {
        if (threads[i].state == DONE) continue;
        if (threads[i].state != AT_BARRIER) return false;
        if (!waits) waits = &threads[i];
        if (threads[i].line != waits->line) other = &threads[i];
    }
    if (other) fail("waits at the barrier in line %d, and thread %u at the one in line %d", (now = waits)->line, other->index.x, other->line);
    for (unsigned i = 0; i < count; i++) {
        // to end before the first barrier is the right of a thread with nothing to do; to end between two is not
        if (threads[i].state == DONE && threads[i].barriers && threads[i].barriers < waits->barriers)
            fail("waits at the barrier in line %d, and thread %u ended after %u barriers", (now = waits)->line, i, threads[i].barriers);
    }
    for (unsigned i = 0; i < count; i++)
        if (threads[i].state != DONE) threads[i].state = READY;
    return true;
}

static void stuck(unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        now = &threads[i];
        if (now->state == AT_EXCHANGE) fail("waits in line %d for the other lanes of mask %08x to come to the same %s", now->line, now->mask, now->what);
        if (now->state == POLLING) fail("polls in line %d for %s, which never comes", now->line, now->what);
    }
    fail("threads wait for one another");
}

// What other headers do when a group begins, and when its threads have ended.
static void (*hooks[8][2])();
static unsigned hook_count;
static bool hook(void (*begins)(), void (*ends)()) { return hooks[hook_count][0] = begins, hooks[hook_count++][1] = ends, true; }
// One warp, as far as it comes alone; whether it did anything but poll.
static bool run_warp(Thread* warp, unsigned count, bool reverse) {
    bool worked = false;
    for (unsigned i = 0; i < count; i++) {
        if (warp[i].state != POLLING) continue;
        const int line = warp[i].line;
        now = &warp[i];
        now->state = READY;
        resume();
        if (failure) return true;
        worked |= warp[i].state != POLLING || warp[i].line != line;
    }
    for (bool again = true; again;) {
        again = false;
        for (unsigned k = 0; k < count; k++) {
            now = &warp[reverse ? count - 1 - k : k];
            if (now->state != READY) continue;
            again = worked = true;
            resume();
            if (failure) return true;
        }
        now = nullptr;
        getcontext(&scheduler);  // a check that fails below comes back to this place
        if (failure) return true;
        again |= exchanged(warp, count);
    }
    return worked;
}

// The groups of a cluster, which begins with `first_group`, to their end or to a failure; `count` threads each.
static void run_cluster(unsigned each, bool reverse, size_t dynamic_bytes) {
    const unsigned count = cluster_size * each;
    if (__stop_tilewright_shared != __start_tilewright_shared) memset(__start_tilewright_shared, 0xFF, __stop_tilewright_shared - __start_tilewright_shared);
    for (unsigned r = 0; dynamic_bytes && r < cluster_size; r++) memset(memories[r], 0xFF, dynamic_bytes);
    for (unsigned i = 0; i < hook_count; i++) hooks[i][0]();
    for (unsigned i = 0; i < count; i++) {
        Thread& t = threads[i];
        getcontext(&t.context);
        t.context.uc_stack.ss_sp = stacks + i * (STACK + PAGE) + PAGE;
        t.context.uc_stack.ss_size = STACK;
        t.context.uc_link = nullptr;
        t.index = {i % each, 0, 0};
        t.rank = i / each;
        t.state = READY;
        t.barriers = 0;
        makecontext(&t.context, begin, 0);
    }
    for (idle = 0;;) {
        bool worked = false;
        for (unsigned i = 0; i < count; i += WARP) {
            const unsigned w = reverse ? (count - 1) / WARP * WARP - i : i;
            worked |= run_warp(threads + w, count - w < WARP ? count - w : WARP, reverse);
            if (failure) return;
        }
        bool ended = true, polls = false;
        for (unsigned k = 0; k < count; k++) ended &= threads[k].state == DONE, polls |= threads[k].state == POLLING;
        now = nullptr;
        getcontext(&scheduler);  // a check that fails below comes back to this place
        if (failure) return;
        for (unsigned i = 0; ended && i < hook_count; i++) hooks[i][1]();
        if (ended) return;
        idle = worked ? 0 : idle + 1;
        bool met = false;
        for (unsigned r = 0; r < cluster_size; r++) met |= released(threads + r * each, each);
        if (met) idle = 0;
        else if (!worked && (!polls || idle > PATIENCE)) stuck(count);
    }
}

static void run_grid(uint64_t groups, unsigned count, bool reverse, size_t dynamic_bytes) {
    for (uint64_t g = 0; g < groups && !failure; g += cluster_size) {
        first_group = (unsigned)(reverse ? groups - cluster_size - g : g);
        group = {first_group, 0, 0};
        run_cluster(count, reverse, dynamic_bytes);
    }
}

// An argument: words of 8 bytes, as many as it has.
template <class A>
A word(const uint64_t*& from) {
    static_assert(sizeof(A) % 8 == 0, "arguments are pointers, 64-bit integers and tensor maps");
    A out;
    memcpy(&out, from, sizeof out);
    from += sizeof out / 8;
    return out;
}
template <class... A>
struct Call {
    Call(void (*f)(A...), A... a) { f(a...); }
};

// Runs a grid; nullptr, or what went wrong (valid until the next launch). Arguments are words of 8 bytes. `memory`: dynamic
// shared memory, of each group of a cluster.
template <class... A>
const char* launch(void (*function)(A...), uint64_t groups, unsigned count, char** memory, unsigned cluster, size_t dynamic_bytes, const uint64_t* arguments, bool reverse) {
    body = [](const void* f, const uint64_t* w) { Call<A...>{(void (*)(A...))f, word<A>(w)...}; };  // in braces, from left to right
    if (!count || count > MOST) return "a group has 1 to 1024 threads";
    if (!cluster || cluster > 8 || cluster * count > MOST || groups % cluster) return "a cluster has up to 8 groups, and up to 1024 threads here";
    if (cluster > 1 && count % WARP) return "the groups of a cluster have whole warps";
    for (unsigned r = 0; r < cluster; r++) memories[r] = memory[r];
    kernel = (const void*)function, words = arguments, dynamic = memory[0], cluster_size = cluster, failure = nullptr, now = nullptr;
    group_size = {count, 1, 1}, grid_size = {(unsigned)groups, 1, 1};
    count *= cluster;
    const size_t size = count * (STACK + PAGE);
    stacks = (char*)mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) return stacks = nullptr, "no memory for the stacks of the threads";
    for (unsigned i = 0; i < count; i++) mprotect(stacks + i * (STACK + PAGE), PAGE, PROT_NONE);
    static char alternate[64 << 10];
    stack_t own = {}, before;
    own.ss_sp = alternate, own.ss_size = sizeof alternate;
    sigaltstack(&own, &before);
    struct sigaction action = {}, old[4];
    action.sa_sigaction = signalled, action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    const int signals[4] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (int i = 0; i < 4; i++) sigaction(signals[i], &action, &old[i]);
    run_grid(groups, count / cluster, reverse, dynamic_bytes);
    for (int i = 0; i < 4; i++) sigaction(signals[i], &old[i], nullptr);
    sigaltstack(&before, nullptr);
    munmap(stacks, size);
    stacks = nullptr;
    return failure;
}

// Warp exchanges ----------------------------------------------------------------------------------------------------------
template <class T>
T shuffle(int line, const char* what, unsigned mask, T value, unsigned source) {
    static_assert(sizeof(T) <= 8, "a shuffle moves up to 8 bytes");
    uint64_t word = 0;
    memcpy(&word, &value, sizeof value);
    exchange(line, what, mask, word);
    if (source >= WARP || !(now->met >> source & 1)) fail("line %d: %s reads lane %u, which is not in it", line, what, source);
    memcpy(&value, &now->seen[source], sizeof value);
    return value;
}
static inline unsigned ballot(int line, const char* what, unsigned mask, bool vote) {
    exchange(line, what, mask, vote);
    unsigned out = 0;
    for (unsigned l = 0; l < WARP; l++) out |= (now->met >> l & 1 && now->seen[l]) ? 1u << l : 0u;
    return out;
}
static inline void sync_warp(int line, unsigned mask = ~0u) { exchange(line, "__syncwarp", mask, 0); }

}  // namespace tilewright_host

// What the compiler's own checks of undefined behaviour call (-fsanitize=alignment,bounds,…). The data begin with a place in the source.
#define TILEWRIGHT_UNDEFINED(name, why, ...)                                                                   \
    extern "C" __attribute__((used, noinline, visibility("hidden"))) void __ubsan_handle_##name##_abort(void* data, ##__VA_ARGS__) { \
        struct Place {                                                                                         \
            const char* file;                                                                                  \
            unsigned line, column;                                                                             \
        };                                                                                                     \
        tilewright_host::fail("line %u: " why, ((Place*)data)->line);                                          \
    }
TILEWRIGHT_UNDEFINED(type_mismatch_v1, "an access that is not aligned for its type", void*)
TILEWRIGHT_UNDEFINED(out_of_bounds, "an index outside its array", void*)
TILEWRIGHT_UNDEFINED(shift_out_of_bounds, "a shift by more bits than there are", void*, void*)
TILEWRIGHT_UNDEFINED(add_overflow, "a signed addition that overflows", void*, void*)
TILEWRIGHT_UNDEFINED(sub_overflow, "a signed subtraction that overflows", void*, void*)
TILEWRIGHT_UNDEFINED(mul_overflow, "a signed multiplication that overflows", void*, void*)
TILEWRIGHT_UNDEFINED(negate_overflow, "a signed negation that overflows", void*)
TILEWRIGHT_UNDEFINED(divrem_overflow, "a division by zero or that overflows", void*, void*)

// CUDA by name ------------------------------------------------------------------------------------------------------------
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("tilewright_shared")))
#define __constant__ static const
#define threadIdx (tilewright_host::now->index)
#define blockIdx (tilewright_host::group)
#define blockDim (tilewright_host::group_size)
#define gridDim (tilewright_host::grid_size)
#define __syncthreads() tilewright_host::barrier(__LINE__)
#define __syncwarp(...) tilewright_host::sync_warp(__LINE__, ##__VA_ARGS__)
#define __shfl_sync(mask, x, from) tilewright_host::shuffle(__LINE__, "__shfl_sync", mask, x, (from) & 31u)
#define __shfl_xor_sync(mask, x, by) tilewright_host::shuffle(__LINE__, "__shfl_xor_sync", mask, x, tilewright_host::lane() ^ (by))
#define __shfl_down_sync(mask, x, by) \
    tilewright_host::shuffle(__LINE__, "__shfl_down_sync", mask, x, tilewright_host::lane() + (by) < 32u ? tilewright_host::lane() + (by) : tilewright_host::lane())
#define __shfl_up_sync(mask, x, by) \
    tilewright_host::shuffle(__LINE__, "__shfl_up_sync", mask, x, tilewright_host::lane() < (by) ? tilewright_host::lane() : tilewright_host::lane() - (by))
#define __ballot_sync(mask, vote) tilewright_host::ballot(__LINE__, "__ballot_sync", mask, vote)
#define __any_sync(mask, vote) (tilewright_host::ballot(__LINE__, "__any_sync", mask, vote) != 0)
#define __all_sync(mask, vote) (tilewright_host::ballot(__LINE__, "__all_sync", mask, !(vote)) == 0)

#define TILEWRIGHT_VECTOR(T, name, align2, align4)                                                  \
    struct alignas(align2) name##2 { T x, y; };                                                     \
    struct alignas(align4) name##4 { T x, y, z, w; };                                               \
    static inline name##2 make_##name##2(T x, T y) { return {x, y}; }                               \
    static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
TILEWRIGHT_VECTOR(signed char, char, 2, 4)
TILEWRIGHT_VECTOR(unsigned char, uchar, 2, 4)
TILEWRIGHT_VECTOR(short, short, 4, 8)
TILEWRIGHT_VECTOR(unsigned short, ushort, 4, 8)
TILEWRIGHT_VECTOR(int, int, 8, 16)
TILEWRIGHT_VECTOR(unsigned, uint, 8, 16)
TILEWRIGHT_VECTOR(long long, longlong, 16, 16)
TILEWRIGHT_VECTOR(unsigned long long, ulonglong, 16, 16)
TILEWRIGHT_VECTOR(float, float, 8, 16)
TILEWRIGHT_VECTOR(double, double, 16, 16)

// a cycle is a nanosecond here
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clzll(unsigned long long x) { return x ? __builtin_clzll(x) : 64; }
static inline long long clock64() { return tilewright_host::nanoseconds(); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
[[noreturn]] static inline void __trap() { tilewright_host::fail("__trap()"); }
template <class T> static inline T __ldg(const T* p) { return *p; }
template <class T> static inline T __ldcs(const T* p) { return *p; }
template <class T> static inline T __ldcg(const T* p) { return *p; }
template <class T> static inline void __stcs(T* p, T x) { *p = x; }
template <class T> static inline void __stcg(T* p, T x) { *p = x; }
static inline unsigned __float_as_uint(float x) { return tilewright_host::bits<unsigned>(x); }
static inline int __float_as_int(float x) { return tilewright_host::bits<int>(x); }
static inline float __uint_as_float(unsigned x) { return tilewright_host::bits<float>(x); }
static inline float __int_as_float(int x) { return tilewright_host::bits<float>(x); }
static inline long long __double_as_longlong(double x) { return tilewright_host::bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return tilewright_host::bits<double>(x); }
// operations of one rounding that no compiler contracts; here nothing is (-ffp-contract=off)
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

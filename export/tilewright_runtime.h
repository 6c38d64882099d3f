/* Tilewright's runtime for exported libraries: phases of kernels shared out to threads. Everything is static and lies in memory that the
   caller gives; nothing is allocated after open, and no call ends the process. POSIX threads, C11 atomics. */
#ifndef TILEWRIGHT_RUNTIME_H
#define TILEWRIGHT_RUNTIME_H
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define TW_MOST_THREADS 256
#define TW_SPIN_NS 60000 /* how long a worker without work looks for some before it sleeps: waking it takes as long */

static inline int64_t tw_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tw_max(int64_t a, int64_t b) { return a > b ? a : b; }

/* Copies, unless both are one place. */
static inline void tw_copy(void *to, const void *from, int64_t bytes) {
    if (to != from) memcpy(to, from, (size_t)bytes);
}

/* A moment of a loop that waits. */
static inline void tw_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline int64_t tw_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#ifdef __x86_64__
#include <cpuid.h>
static inline int tw_has_avxvnni(void) {
    unsigned a = 0, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
#endif

/* Items [lo, hi) of one phase of a kernel. */
typedef void (*tw_phase)(void **arrays, int64_t *sizes, void *scratch, int64_t lo, int64_t hi);

/* What a worker has in its word. */
enum { TW_IDLE, TW_POSTED, TW_RUNNING, TW_ASLEEP, TW_STOP };

struct tw_pool;

typedef struct tw_worker {
    _Atomic int mail; /* in a line of its own */
    int number;
    struct tw_pool *pool;
    pthread_t id;
    pthread_mutex_t lock; /* for a worker that sleeps */
    pthread_cond_t wake;
    char apart[64];
} tw_worker;
_Static_assert(sizeof(tw_worker) <= 256, "what an instance's memory has for each worker");

typedef struct tw_pool {
    int threads;              /* those that run a phase, the caller's among them */
    unsigned char *scratch;   /* `scratch_bytes` for each thread */
    size_t scratch_bytes;
    tw_worker *workers;       /* from 1 on */
    tw_phase phase;           /* what runs now: written before it is posted */
    void **arrays;
    int64_t *sizes;
    int64_t items, chunk;
    char apart[64];
    _Atomic int64_t next;     /* the first item that nobody has taken */
} tw_pool;

static void tw_share(tw_pool *p, int number) {
    unsigned char *scratch = p->scratch + (size_t)number * p->scratch_bytes;
    int64_t lo;
    while ((lo = atomic_fetch_add_explicit(&p->next, p->chunk, memory_order_relaxed)) < p->items)
        p->phase(p->arrays, p->sizes, scratch, lo, lo + p->chunk < p->items ? lo + p->chunk : p->items);
}

/* Changes a worker's word from `from`; whether it was that. */
static int tw_change(tw_worker *w, int from, int to) {
    return atomic_compare_exchange_strong_explicit(&w->mail, &from, to, memory_order_acq_rel, memory_order_acquire);
}

/* Puts a word into a worker's mail, and wakes it where it sleeps. */
static void tw_send(tw_worker *w, int what) {
    if (atomic_exchange_explicit(&w->mail, what, memory_order_seq_cst) != TW_ASLEEP) return;
    pthread_mutex_lock(&w->lock);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

static void *tw_work(void *given) {
    tw_worker *w = (tw_worker *)given;
    int64_t begin = tw_now();
    for (unsigned i = 1;; i++) {
        int mail = atomic_load_explicit(&w->mail, memory_order_acquire);
        if (mail == TW_STOP) return 0;
        if (mail == TW_POSTED && tw_change(w, TW_POSTED, TW_RUNNING)) {
            tw_share(w->pool, w->number);
            atomic_store_explicit(&w->mail, TW_IDLE, memory_order_release);
            begin = tw_now();
        } else if (i % 64 == 0 && tw_now() - begin > TW_SPIN_NS && tw_change(w, TW_IDLE, TW_ASLEEP)) {
            pthread_mutex_lock(&w->lock);
            while (atomic_load_explicit(&w->mail, memory_order_acquire) == TW_ASLEEP) pthread_cond_wait(&w->wake, &w->lock);
            pthread_mutex_unlock(&w->lock);
            begin = tw_now();
        } else {
            tw_pause();
        }
    }
}

/* All items of a phase, by the caller. */
static inline void tw_run_here(tw_pool *p, tw_phase phase, int64_t items, void **arrays, int64_t *sizes) {
    if (items > 0) phase(arrays, sizes, p->scratch, 0, items);
}

/* All items of a phase, by as many threads as have some; returns when they are done. What a worker has not begun when no item is left, it
   need not: so one that is waking up costs the caller nothing but the call that wakes it. */
static inline void tw_run(tw_pool *p, tw_phase phase, int64_t items, void **arrays, int64_t *sizes) {
    int threads = (int)tw_min(items, p->threads);
    if (threads <= 1) {
        tw_run_here(p, phase, items, arrays, sizes);
        return;
    }
    p->phase = phase;
    p->arrays = arrays;
    p->sizes = sizes;
    p->items = items;
    p->chunk = tw_max(items / (8 * threads), 1);
    atomic_store_explicit(&p->next, 0, memory_order_release);
    for (int i = 1; i < threads; i++) tw_send(&p->workers[i], TW_POSTED);
    tw_share(p, 0);
    for (int i = 1; i < threads; i++) {
        tw_worker *w = &p->workers[i];
        if (tw_change(w, TW_POSTED, TW_IDLE)) continue;
        for (int spins = 0; atomic_load_explicit(&w->mail, memory_order_acquire) == TW_RUNNING;) {
            if (++spins > 20000) sched_yield();
            tw_pause();
        }
    }
}

/* Sorting: the smaller key first, of equal ones the one that was before. */
typedef struct { int64_t key, at; } tw_ranked;

/* An element as a number with its order. `most`: of floats, the bits of the largest number, above which lie NaNs, which are larger than all
   and equal; -1, of signed integers; 0, of unsigned ones. */
static inline int64_t tw_key(const void *x, int64_t i, int64_t bytes, int64_t most) {
    uint64_t bits = bytes == 8   ? ((const uint64_t *)x)[i]
                    : bytes == 4 ? ((const uint32_t *)x)[i]
                    : bytes == 2 ? ((const uint16_t *)x)[i]
                                 : ((const uint8_t *)x)[i];
    uint64_t sign = (uint64_t)1 << (8 * bytes - 1), size = bits & (sign - 1);
    if (most < 0) return (int64_t)(bits << (64 - 8 * bytes)) >> (64 - 8 * bytes);
    if (most == 0) return (int64_t)(bits ^ (uint64_t)1 << 63);
    return size > (uint64_t)most ? INT64_MAX : bits & sign ? -(int64_t)size : (int64_t)size;
}

/* A phase that sorts lines of x into y. sizes: elements of a line, elements from one of a line to the next, bytes of one, `most` as above, whether
   the largest come first, whether y has places, elements of a line of y. The scratch has room for a line twice. */
static inline void tw_sort(void **arrays, int64_t *sizes, void *scratch, int64_t lo, int64_t hi) {
    const int64_t n = sizes[0], step = sizes[1], bytes = sizes[2];
    for (int64_t line = lo; line < hi; line++) {
        const int64_t begin = line / step * n * step + line % step;
        tw_ranked *from = (tw_ranked *)scratch, *to = from + n;
        for (int64_t i = 0; i < n; i++) {
            int64_t key = tw_key(arrays[0], begin + i * step, bytes, sizes[3]);
            from[i].key = sizes[4] ? ~key : key;
            from[i].at = i;
        }
        for (int64_t width = 1; width < n; width *= 2) {
            for (int64_t first = 0; first < n; first += 2 * width) {
                const int64_t middle = tw_min(first + width, n), last = tw_min(middle + width, n);
                int64_t a = first, b = middle;
                for (int64_t i = first; i < last; i++) {
                    const int later = a == middle || (b < last && from[b].key < from[a].key);
                    to[i] = from[later ? b : a];
                    a += !later, b += later;
                }
            }
            tw_ranked *other = from;
            from = to, to = other;
        }
        for (int64_t i = 0; i < sizes[6]; i++) {
            const int64_t out = begin + (i - line / step * (n - sizes[6])) * step;
            if (sizes[5]) ((int64_t *)arrays[1])[out] = from[i].at;
            else memcpy((char *)arrays[1] + out * bytes, (const char *)arrays[0] + (begin + from[i].at * step) * bytes, (size_t)bytes);
        }
    }
}

/* Asks for huge pages, of which the processor looks up fewer. A hint: where the system has none, all still works. */
static inline void tw_advise(unsigned char *memory, size_t bytes) {
#ifdef MADV_HUGEPAGE
    unsigned char *first = (unsigned char *)(((uintptr_t)memory + 4095) / 4096 * 4096), *last = memory + bytes;
    if (first < last) (void)madvise(first, (size_t)(last - first) / 4096 * 4096, MADV_HUGEPAGE);
#else
    (void)memory, (void)bytes;
#endif
}

/* Starts the workers. Where the system gives fewer threads, the library runs with those. `workers`: room for `threads` of them. */
static void tw_open(tw_pool *p, int threads, unsigned char *scratch, size_t scratch_bytes, tw_worker *workers) {
    memset(p, 0, sizeof *p);
    p->scratch = scratch;
    p->scratch_bytes = scratch_bytes;
    p->workers = workers;
    p->threads = 1;
    for (int i = 1; i < threads; i++) {
        tw_worker *w = &workers[i];
        atomic_init(&w->mail, TW_IDLE);
        w->number = i;
        w->pool = p;
        pthread_mutex_init(&w->lock, 0);
        pthread_cond_init(&w->wake, 0);
        if (pthread_create(&w->id, 0, tw_work, w) != 0) {
            pthread_cond_destroy(&w->wake);
            pthread_mutex_destroy(&w->lock);
            break;
        }
        p->threads = i + 1;
    }
}

static void tw_close(tw_pool *p) {
    for (int i = 1; i < p->threads; i++) {
        tw_worker *w = &p->workers[i];
        tw_send(w, TW_STOP);
        pthread_join(w->id, 0);
        pthread_cond_destroy(&w->wake);
        pthread_mutex_destroy(&w->lock);
    }
}
#endif

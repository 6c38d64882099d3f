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

#define TW_MOST_THREADS 256
#define TW_SPINS 4000

static inline int64_t tw_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t tw_max(int64_t a, int64_t b) { return a > b ? a : b; }

#ifdef __x86_64__
#include <cpuid.h>
static inline int tw_has_avxvnni(void) {
    unsigned a = 0, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}
#endif

/* Items [lo, hi) of one phase of a kernel. */
typedef void (*tw_phase)(void **arrays, int64_t *sizes, void *scratch, int64_t lo, int64_t hi);

typedef struct tw_pool {
    int threads;              /* those that run a phase, the caller's among them */
    int workers;              /* those that were started */
    int stop;                 /* under the lock */
    unsigned char *scratch;   /* `scratch_bytes` for each thread */
    size_t scratch_bytes;
    tw_phase phase;           /* what runs now: written before `turn`, read after it */
    void **arrays;
    int64_t *sizes;
    int64_t items, chunk;
    _Atomic int64_t next;     /* the first item that nobody has taken */
    _Atomic uint64_t turn;    /* counts phases */
    _Atomic int left;         /* workers that are not done with this turn */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t ids[TW_MOST_THREADS];
} tw_pool;

typedef struct tw_worker {
    tw_pool *pool;
    int number;
} tw_worker;

static void tw_share(tw_pool *p, int number) {
    unsigned char *scratch = p->scratch + (size_t)number * p->scratch_bytes;
    int64_t lo;
    while ((lo = atomic_fetch_add_explicit(&p->next, p->chunk, memory_order_relaxed)) < p->items)
        p->phase(p->arrays, p->sizes, scratch, lo, lo + p->chunk < p->items ? lo + p->chunk : p->items);
}

static void *tw_work(void *given) {
    tw_worker w = *(tw_worker *)given;
    tw_pool *p = w.pool;
    uint64_t seen = 0;
    for (;;) {
        for (int i = 0; i < TW_SPINS && atomic_load_explicit(&p->turn, memory_order_acquire) == seen; i++) {
        }
        if (atomic_load_explicit(&p->turn, memory_order_acquire) == seen) {
            pthread_mutex_lock(&p->lock);
            while (atomic_load_explicit(&p->turn, memory_order_acquire) == seen) pthread_cond_wait(&p->wake, &p->lock);
            pthread_mutex_unlock(&p->lock);
        }
        seen = atomic_load_explicit(&p->turn, memory_order_acquire);
        if (p->stop) return 0;
        tw_share(p, w.number);
        atomic_fetch_sub_explicit(&p->left, 1, memory_order_release);
    }
}

static void tw_turn(tw_pool *p) {
    atomic_store_explicit(&p->left, p->workers, memory_order_relaxed);
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add_explicit(&p->turn, 1, memory_order_release);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

/* All items of a phase, by all threads; returns when they are done. */
static void tw_run(tw_pool *p, tw_phase phase, int64_t items, void **arrays, int64_t *sizes) {
    if (items <= 0) return;
    if (p->workers == 0 || items == 1) {
        phase(arrays, sizes, p->scratch, 0, items);
        return;
    }
    p->phase = phase;
    p->arrays = arrays;
    p->sizes = sizes;
    p->items = items;
    p->chunk = items / (8 * p->threads) > 0 ? items / (8 * p->threads) : 1;
    atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    tw_turn(p);
    tw_share(p, 0);
    for (int spins = 0; atomic_load_explicit(&p->left, memory_order_acquire) != 0;)
        if (++spins > TW_SPINS) sched_yield();
}

/* Starts the workers. Where the system gives fewer threads, the library runs with those. `workers`: room for `threads` of them. */
static void tw_open(tw_pool *p, int threads, unsigned char *scratch, size_t scratch_bytes, tw_worker *workers) {
    memset(p, 0, sizeof *p);
    p->scratch = scratch;
    p->scratch_bytes = scratch_bytes;
    atomic_init(&p->next, 0);
    atomic_init(&p->turn, 0);
    atomic_init(&p->left, 0);
    pthread_mutex_init(&p->lock, 0);
    pthread_cond_init(&p->wake, 0);
    for (int i = 1; i < threads; i++) {
        workers[i].pool = p;
        workers[i].number = i;
        if (pthread_create(&p->ids[i], 0, tw_work, &workers[i]) != 0) break;
        p->workers = i;
    }
    p->threads = p->workers + 1;
}

static void tw_close(tw_pool *p) {
    p->stop = 1;
    tw_turn(p);
    for (int i = 1; i <= p->workers; i++) pthread_join(p->ids[i], 0);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
}
#endif

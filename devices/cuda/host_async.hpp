// CUDA's asynchronous copies (cp.async) for text that runs as C++ on a processor: `host.hpp` comes first.
//
// A copy lands when its thread waits for its group, which is as late as it may. Until then its destination holds 0xFF bytes (NaN), so
// that who reads too early, or past a barrier that nobody waited before, gets wrong numbers. Groups are each thread's own.
#pragma once
#include <stdlib.h>

namespace tilewright_host {

struct CopyUnderWay {
    char* to;
    const char* from;
    unsigned size;
    bool on;
    int line;
    unsigned long group;  // how many groups the thread had committed when it began
};

// of one thread, in the order in which they began
struct ThreadCopies {
    CopyUnderWay* of;
    unsigned count, room;
    unsigned long committed;
};

static ThreadCopies copies[MOST];

static inline ThreadCopies& mine() { return copies[now - threads]; }

static void copy(int line, void* to, const void* from, unsigned size, bool on) {
    if ((uint64_t)to % size || (uint64_t)from % size) fail("line %d: a copy of %u bytes that is not aligned to them", line, size);
    ThreadCopies& m = mine();
    if (m.count == m.room) m.of = (CopyUnderWay*)realloc(m.of, (m.room = 2 * m.room + 16) * sizeof *m.of);
    memset(to, 0xFF, size);
    m.of[m.count++] = {(char*)to, (const char*)from, size, on, line, m.committed};
}

static inline void commit(int) { mine().committed++; }

static void wait(int, unsigned long newest) {
    ThreadCopies& m = mine();
    unsigned left = 0;
    for (unsigned i = 0; i < m.count; i++) {
        const CopyUnderWay c = m.of[i];
        if (c.group + newest >= m.committed) m.of[left++] = c;
        else if (c.on) memcpy(c.to, c.from, c.size);
        else memset(c.to, 0, c.size);
    }
    m.count = left;
}

static void no_copies() {
    for (ThreadCopies& m : copies) m.count = 0, m.committed = 0;
}

static void all_landed() {
    for (ThreadCopies& m : copies)
        if (m.count) fail("line %d: thread %u ended and has not waited for this copy", m.of[0].line, (unsigned)(&m - copies));
}

static const bool copies_hooked = hook(no_copies, all_landed);

}  // namespace tilewright_host

/* Runs the phases of one kernel, linked in as `phases`, on what it reads; writes back what the buffers hold then. For AArch64 under qemu.

   Input, in int64: number of buffers, of symbols, of phases, bytes of workspace and of scratch; the symbols; each phase's items; each buffer's
   bytes; then the buffers. Every buffer ends at an inaccessible page. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void phase(void **bufs, int64_t *vars, void *scratch, int64_t lo, int64_t hi);
extern phase *const phases[];

static void take(void *to, size_t n) {
    if (n && fread(to, 1, n, stdin) != n) exit(3);
}

static int64_t *numbers(int64_t n) {
    int64_t *out = calloc(n + 1, sizeof *out);
    take(out, n * sizeof *out);
    return out;
}

/* `n` bytes that end at an inaccessible page, or at the last multiple of `align` before it. */
static char *room(size_t n, size_t align) {
    size_t page = sysconf(_SC_PAGESIZE), inside = (n + align + page - 1) / page * page;
    char *at = mmap(0, inside + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at + inside, page, PROT_NONE)) exit(4);
    return at + (inside - n) / align * align;
}

int main(void) {
    int64_t *head = numbers(5), buffers = head[0];
    int64_t *vars = numbers(head[1]), *items = numbers(head[2]), *sizes = numbers(buffers);
    void **bufs = calloc(buffers + 1, sizeof *bufs);
    for (int64_t i = 0; i < buffers; i++) take(bufs[i] = room(sizes[i], 1), sizes[i]);
    bufs[buffers] = room(head[3], 64);
    void *scratch = room(head[4], 64);
    for (int64_t i = 0; i < head[2]; i++) phases[i](bufs, vars, scratch, 0, items[i]);
    for (int64_t i = 0; i < buffers; i++)
        if (sizes[i] && fwrite(bufs[i], 1, sizes[i], stdout) != (size_t)sizes[i]) return 5;
    return 0;
}

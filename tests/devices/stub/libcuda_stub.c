// A libcuda.so.1 for tests: NVIDIA's driver interface over the host's memory and processor.
//
// Work is asynchronous, as on a GPU: a thread does what was queued, in order. A module is a shared library that
// devices/cuda/host.py made of CUDA text; a launch calls its `tilewright_launch_NAME`. A kernel that faults makes the
// error sticky: every later call returns it. Environment variables make calls fail (see `configured`).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef int Result;
typedef unsigned long long Address;
enum { OK, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NOT_FOUND = 500,
       ILLEGAL_ADDRESS = 700, LAUNCH_OUT_OF_RESOURCES = 701, LAUNCH_TIMEOUT = 702, LAUNCH_FAILED = 719, NOT_SUPPORTED = 801, UNKNOWN = 999 };
static const struct { Result code; const char *name, *text; } ERRORS[] = {
    {OK, "CUDA_SUCCESS", "no error"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"}, {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"}, {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}, {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}, {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"}, {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"}, {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"}, {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

// settings ---------------------------------------------------------------------------------------------------------------
// STUB_VERSION (13000), STUB_COUNT (1), STUB_FREE (KiB of device memory that other processes leave, 1 GiB), STUB_FAIL: "cuName=code,…",
// calls that return a code; "cuName@3=code": from the third on. STUB_LOG: a file that gets a line for each call.
static long setting(const char *name, long otherwise) {
    const char *found = getenv(name);
    return found && *found ? atol(found) : otherwise;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Result sticky;  // a fault, which every later call returns
static __thread void *current, *stack[16];
static __thread int depth;
static int initialised;

static void note(const char *format, ...) {
    const char *path = getenv("STUB_LOG");
    if (!path) return;
    char line[400];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (n > (int)sizeof line - 2) n = sizeof line - 2;
    line[n] = '\n';
    FILE *file = fopen(path, "a");
    if (file) fwrite(line, 1, n + 1, file), fclose(file);
}

static Result configured(const char *call) {
    static struct { char name[48]; int calls; } counts[64];
    const char *list = getenv("STUB_FAIL");
    size_t length = strlen(call);
    for (const char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, call, length) || (at[length] != '=' && at[length] != '@')) continue;
        int from = 1;
        const char *value = at + length;
        if (*value == '@') from = atoi(value + 1), value = strchr(value, '=');
        for (int i = 0; i < 64; i++) {
            if (counts[i].name[0] && strcmp(counts[i].name, call)) continue;
            strncpy(counts[i].name, call, 47);
            if (++counts[i].calls >= from && value) return atoi(value + 1);
            break;
        }
    }
    return OK;
}

// What every call begins with: it is initialised, has a context where it needs one, nothing has faulted, and it is not made to fail.
#define BEGIN(name)                                     \
    do {                                                \
        Result r_ = initialised ? OK : NOT_INITIALIZED; \
        if (!r_) r_ = configured(name);                 \
        if (!r_) r_ = sticky;                           \
        if (r_) return note(name " -> %d", r_), r_;     \
    } while (0)
#define IN_CONTEXT(name)                                                   \
    do {                                                                   \
        BEGIN(name);                                                       \
        if (!current) return note(name " has no context"), INVALID_CONTEXT; \
    } while (0)

// the queue --------------------------------------------------------------------------------------------------------------
typedef const char *Launcher(uint64_t groups, unsigned threads, char **memory, unsigned cluster, size_t bytes, const uint64_t *args, char reverse);
typedef struct Event { double seconds; } Event;
typedef struct Work {
    struct Work *next;
    Launcher *kernel;
    Event *event;
    Address fill;
    size_t nbytes;
    int byte;
    unsigned groups, threads, shared, cluster;
    uint64_t words[];
} Work;
static Work *first, *last;
static int pending;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void finish(Work *w) {
    if (w->event) {
        w->event->seconds = seconds();
    } else if (w->kernel && !sticky) {
        char *memory[8] = {NULL};
        for (unsigned i = 0; w->shared && i < w->cluster; i++)
            if (posix_memalign((void **)&memory[i], 1024, w->shared)) abort();
        const char *message = w->kernel(w->groups, w->threads, memory, w->cluster, w->shared, w->words, 0);
        for (unsigned i = 0; i < 8; i++) free(memory[i]);
        if (message) note("fault: %s", message), sticky = strstr(message, "that traps") ? 715 : ILLEGAL_ADDRESS;
    } else if (!sticky) {
        memset((void *)w->fill, w->byte, w->nbytes);
    }
}

static void *work(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!first) pthread_cond_wait(&changed, &lock);
        Work *w = first;
        pthread_mutex_unlock(&lock);
        finish(w);
        pthread_mutex_lock(&lock);
        first = w->next;
        if (!first) last = NULL;
        pending--;
        free(w);
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

static Work *new_work(size_t words) {
    Work *w = calloc(1, sizeof(Work) + 8 * words);
    if (!w) abort();
    return w;
}

static void push(Work *w) {
    static pid_t started;
    pthread_mutex_lock(&lock);
    if (started != getpid()) {
        pthread_t thread;
        started = getpid();
        if (pthread_create(&thread, NULL, work, NULL)) abort();
    }
    // as a real driver: a queue of a thousand, then a launch waits
    while (pending >= 1000) pthread_cond_wait(&changed, &lock);
    if (last) last->next = w; else first = w;
    last = w;
    pending++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void drain(void) {
    pthread_mutex_lock(&lock);
    while (pending) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

// devices and contexts ---------------------------------------------------------------------------------------------------
static struct Context { int device; } contexts[8];

Result cuInit(unsigned flags) {
    Result r = configured("cuInit");
    note("cuInit %u -> %d", flags, r);
    if (!r) initialised = 1;
    return r ? r : flags ? INVALID_VALUE : OK;
}
Result cuDriverGetVersion(int *version) { return *version = setting("STUB_VERSION", 13000), OK; }
Result cuDeviceGetCount(int *n) { BEGIN("cuDeviceGetCount"); return *n = setting("STUB_COUNT", 1), OK; }
Result cuDeviceGet(int *device, int i) {
    BEGIN("cuDeviceGet");
    if (i < 0 || i >= setting("STUB_COUNT", 1)) return INVALID_DEVICE;
    return *device = i, OK;
}
Result cuDeviceGetName(char *name, int size, int device) { return snprintf(name, size, device ? "Stub A100" : "Stub H200"), OK; }
Result cuDeviceGetPCIBusId(char *text, int size, int device) { return snprintf(text, size, "0000:%02X:00.0", device + 1), OK; }
Result cuDeviceGetAttribute(int *value, int which, int device) {
    BEGIN("cuDeviceGetAttribute");
    static const int H[][2] = {{75, 9}, {76, 0}, {16, 132}, {97, 232448}, {81, 233472}, {82, 65536}, {38, 62914560}, {13, 1000000}, {36, 3201000}, {37, 6144}, {32, 1}, {17, 0}};
    static const int A[][2] = {{75, 8}, {76, 0}, {16, 108}, {97, 166912}, {81, 167936}, {82, 65536}, {38, 41943040}, {13, 1000000}, {36, 1215000}, {37, 5120}, {32, 0}, {17, 1}};
    for (unsigned i = 0; i < sizeof H / sizeof *H; i++)
        if (H[i][0] == which) return *value = (device ? A : H)[i][1], OK;
    return note("attribute %d is not known", which), INVALID_VALUE;
}
Result cuDevicePrimaryCtxRetain(void **context, int device) {
    BEGIN("cuDevicePrimaryCtxRetain");
    note("cuDevicePrimaryCtxRetain %d", device);
    contexts[device].device = device;
    return *context = &contexts[device], OK;
}
Result cuDevicePrimaryCtxRelease_v2(int device) { (void)device; return OK; }
Result cuCtxSetCurrent(void *context) { BEGIN("cuCtxSetCurrent"); note("cuCtxSetCurrent"); return current = context, OK; }
Result cuCtxGetCurrent(void **context) { return *context = current, OK; }
Result cuCtxPushCurrent_v2(void *context) { stack[depth++] = current; return current = context, OK; }
Result cuCtxPopCurrent_v2(void **context) {
    if (!depth) return INVALID_CONTEXT;
    if (context) *context = current;
    return current = stack[--depth], OK;  // no work of the GPU
}
Result cuCtxGetDevice(int *device) { if (!current) return INVALID_CONTEXT; return *device = ((struct Context *)current)->device, OK; }
Result cuCtxGetApiVersion(void *context, unsigned *version) { (void)context; return *version = 3020, OK; }
Result cuCtxDetach(void *context) { (void)context; return OK; }
Result cuCtxSynchronize(void) {
    IN_CONTEXT("cuCtxSynchronize");
    drain();
    note("cuCtxSynchronize -> %d", sticky);
    return sticky;
}

// modules and launches ---------------------------------------------------------------------------------------------------
enum { PARAMETERS = 64 };
typedef struct Function { Launcher *launch; unsigned parameters, cluster, bytes, sizes[PARAMETERS]; int shared; char name[120]; } Function;

Result cuModuleLoadData(void **module, const void *image) {
    IN_CONTEXT("cuModuleLoadData");
    const unsigned char *bytes = image;
    if (memcmp(bytes, "\177ELF", 4)) return INVALID_IMAGE;
    uint64_t sections;
    uint16_t size, count;
    memcpy(&sections, bytes + 0x28, 8), memcpy(&size, bytes + 0x3a, 2), memcpy(&count, bytes + 0x3c, 2);
    char path[] = "/tmp/stub-module-XXXXXX";
    int file = mkstemp(path);
    size_t length = sections + (size_t)size * count;  // the table of sections ends the file
    if (file < 0 || write(file, image, length) != (ssize_t)length) return UNKNOWN;
    close(file);
    *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    note("cuModuleLoadData %zu bytes", length);
    return *module ? OK : (note("%s", dlerror()), INVALID_IMAGE);
}
Result cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **values) { (void)n, (void)options, (void)values; return cuModuleLoadData(module, image); }
Result cuModuleUnload(void *module) { IN_CONTEXT("cuModuleUnload"); drain(); return note("cuModuleUnload"), dlclose(module) ? UNKNOWN : OK; }
Result cuModuleGetFunction(Function **found, void *module, const char *name) {
    IN_CONTEXT("cuModuleGetFunction");
    char symbol[160];
    snprintf(symbol, sizeof symbol, "tilewright_launch_%s", name);
    Launcher *launch = (Launcher *)dlsym(module, symbol);
    snprintf(symbol, sizeof symbol, "stub_about_%s", name);
    unsigned (*about)(unsigned *, unsigned *) = (unsigned (*)(unsigned *, unsigned *))dlsym(module, symbol);
    if (!launch || !about) return NOT_FOUND;
    Function *f = calloc(1, sizeof *f);  // a few per test: never freed
    f->launch = launch, f->parameters = about(f->sizes, &f->cluster), f->shared = 48 << 10;
    for (unsigned i = 0; i < f->parameters; i++) f->bytes += f->sizes[i];
    strncpy(f->name, name, sizeof f->name - 1);
    return *found = f, OK;
}
Result cuFuncGetAttribute(int *value, int which, Function *f) {
    IN_CONTEXT("cuFuncGetAttribute");
    *value = which == 4 ? 32 : which == 8 ? f->shared : 0;
    return OK;
}
Result cuFuncSetAttribute(Function *f, int which, int value) {
    IN_CONTEXT("cuFuncSetAttribute");
    note("cuFuncSetAttribute %s %d %d", f->name, which, value);
    if (which == 8 && value > 232448) return INVALID_VALUE;
    if (which == 8) f->shared = value;
    return OK;
}
Result cuLaunchKernel(Function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
    IN_CONTEXT("cuLaunchKernel");
    if (gy != 1 || gz != 1 || by != 1 || bz != 1 || !gx || !bx || bx > 1024 || (int)shared > f->shared) return INVALID_VALUE;
    if (gx % f->cluster || (!params && *(size_t *)extra[3] != f->bytes)) return INVALID_VALUE;
    Work *w = new_work(f->bytes / 8);
    char *to = (char *)w->words;
    for (unsigned i = 0; params && i < f->parameters; to += f->sizes[i++]) memcpy(to, params[i], f->sizes[i]);
    if (!params) memcpy(to, extra[1], f->bytes);  // CU_LAUNCH_PARAM_BUFFER_POINTER, the buffer, …_SIZE, its size
    w->kernel = f->launch, w->groups = gx, w->threads = bx, w->shared = shared, w->cluster = f->cluster;
    note("cuLaunchKernel %s %u x %u, %u bytes, %u words by %s", f->name, gx, bx, shared, f->bytes / 8, params ? "params" : "extra");
    if (stream) note("on stream %#zx", (size_t)stream);  // all streams are one queue here: what is queued runs in order
    return push(w), OK;
}
Result cuFuncSetBlockShape(Function *f, int x, int y, int z) { (void)f, (void)x, (void)y, (void)z; return note("cuFuncSetBlockShape, which is deprecated"), OK; }

// memory -----------------------------------------------------------------------------------------------------------------
static struct { Address at; size_t size; } buffers[4096];
static size_t taken;

static size_t whole(size_t nbytes) { return (nbytes + 4095) / 4096 * 4096; }
Result cuMemGetInfo_v2(size_t *left, size_t *total) {
    IN_CONTEXT("cuMemGetInfo");
    *total = 2048ul << 20, *left = ((size_t)setting("STUB_FREE", 1 << 20) << 10) - taken;
    return OK;
}
Result cuMemAlloc_v2(Address *address, size_t nbytes) {
    IN_CONTEXT("cuMemAlloc");
    size_t size = whole(nbytes);
    note("cuMemAlloc %zu", nbytes);
    if (!nbytes || nbytes > 1ul << 40) return nbytes ? OUT_OF_MEMORY : INVALID_VALUE;
    if (taken + size > (size_t)setting("STUB_FREE", 1 << 20) << 10) return OUT_OF_MEMORY;
    // a page on either side that nobody may touch
    char *all = mmap(NULL, size + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED || mprotect(all + 4096, size, PROT_READ | PROT_WRITE)) return OUT_OF_MEMORY;
    for (int i = 0; i < 4096; i++)
        if (!buffers[i].at) {
            buffers[i].at = (Address)all + 4096, buffers[i].size = size, taken += size;
            return *address = buffers[i].at, OK;
        }
    return OUT_OF_MEMORY;
}
Result cuMemFree_v2(Address address) {
    IN_CONTEXT("cuMemFree");
    drain();
    for (int i = 0; i < 4096; i++)
        if (address && buffers[i].at == address) {
            munmap((char *)address - 4096, buffers[i].size + 8192);
            taken -= buffers[i].size, buffers[i].at = 0;
            return OK;
        }
    return INVALID_VALUE;
}
static int inside(Address address, size_t nbytes) {
    for (int i = 0; i < 4096; i++)
        if (buffers[i].at && address >= buffers[i].at && address + nbytes <= buffers[i].at + buffers[i].size) return 1;
    return 0;
}
Result cuMemcpyHtoD_v2(Address to, const void *from, size_t nbytes) {
    IN_CONTEXT("cuMemcpyHtoD");
    if (!inside(to, nbytes)) return INVALID_VALUE;
    drain();
    if (!sticky) memcpy((void *)to, from, nbytes);
    return sticky;
}
Result cuMemcpyDtoH_v2(void *to, Address from, size_t nbytes) {
    IN_CONTEXT("cuMemcpyDtoH");
    note("cuMemcpyDtoH %zu", nbytes);
    if (!inside(from, nbytes)) return INVALID_VALUE;
    drain();
    if (!sticky) memcpy(to, (void *)from, nbytes);
    return sticky;
}
Result cuMemcpyDtoD_v2(Address to, Address from, size_t nbytes) {
    IN_CONTEXT("cuMemcpyDtoD");
    if (!inside(to, nbytes) || !inside(from, nbytes)) return INVALID_VALUE;
    drain();
    if (!sticky) memcpy((void *)to, (void *)from, nbytes);
    return sticky;
}
Result cuMemsetD8_v2(Address to, unsigned char byte, size_t nbytes) {
    IN_CONTEXT("cuMemsetD8");
    if (!inside(to, nbytes)) return INVALID_VALUE;
    Work *w = new_work(0);
    w->fill = to, w->byte = byte, w->nbytes = nbytes;
    return push(w), OK;
}
Result cuMemHostAlloc(void **host, size_t nbytes, unsigned flags) {
    IN_CONTEXT("cuMemHostAlloc");
    note("cuMemHostAlloc %zu flags %u", nbytes, flags);
    return flags & 2 ? posix_memalign(host, 4096, whole(nbytes)) ? OUT_OF_MEMORY : OK : INVALID_VALUE;
}
Result cuMemFreeHost(void *host) { return free(host), OK; }
Result cuMemHostGetDevicePointer_v2(Address *address, void *host, unsigned flags) { IN_CONTEXT("cuMemHostGetDevicePointer"); return *address = (Address)host, flags ? INVALID_VALUE : OK; }

// events -----------------------------------------------------------------------------------------------------------------
Result cuEventCreate(Event **event, unsigned flags) { IN_CONTEXT("cuEventCreate"); (void)flags; return *event = calloc(1, sizeof(Event)), OK; }
Result cuEventDestroy_v2(Event *event) { drain(); return free(event), sticky; }
Result cuEventRecord(Event *event, void *stream) {
    IN_CONTEXT("cuEventRecord");
    if (stream) return INVALID_VALUE;
    Work *w = new_work(0);
    w->event = event;
    return push(w), OK;
}
Result cuEventSynchronize(Event *event) { (void)event; return drain(), sticky; }
Result cuEventQuery(Event *event) { (void)event; return pending ? 600 : sticky; }
Result cuEventElapsedTime(float *milliseconds, Event *a, Event *b) { IN_CONTEXT("cuEventElapsedTime"); return *milliseconds = 1e3 * (b->seconds - a->seconds), OK; }
Result cuEventElapsedTime_v2(float *milliseconds, Event *a, Event *b) { return cuEventElapsedTime(milliseconds, a, b); }

// Tensor maps have the form that devices/cuda/host_hopper.hpp reads.
Result cuTensorMapEncodeTiled(uint64_t *map, int type, unsigned rank, void *address, const uint64_t *extents, const uint64_t *pitches, const uint32_t *box, const uint32_t *steps,
                              int interleave, int swizzle, int promotion, int fill) {
    BEGIN("cuTensorMapEncodeTiled");
    if ((uintptr_t)map % 64 || (uintptr_t)address % 16 || rank < 1 || rank > 5) return INVALID_VALUE;
    for (unsigned i = 0; i < rank; i++)
        if (!box[i] || box[i] > 256 || !extents[i] || steps[i] != 1 || (i + 1 < rank && pitches[i] % 16)) return INVALID_VALUE;
    static const uint8_t SIZES[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    if (type < 0 || type > 12 || interleave || swizzle < 0 || swizzle > 3 || promotion < 0 || promotion > 3 || fill) return INVALID_VALUE;
    struct Map { uint64_t base, dims[5], pitches[4]; uint16_t box[5]; uint8_t rank, size, swizzle, unused; } *m = (struct Map *)map;
    memset(map, 0, 128);
    m->base = (uintptr_t)address, m->rank = rank, m->size = SIZES[type], m->swizzle = swizzle ? 16 << swizzle : 0;
    for (unsigned i = 0; i < 5; i++) m->dims[i] = i < rank ? extents[i] : 1, m->box[i] = i < rank ? box[i] : 1;
    for (unsigned i = 0; i + 1 < rank; i++) m->pitches[i] = pitches[i];
    note("cuTensorMapEncodeTiled of rank %u, elements of %u bytes, swizzle %u", rank, m->size, m->swizzle);
    return OK;
}

// errors and look-ups ----------------------------------------------------------------------------------------------------
static Result described(Result code, const char **text, int name) {
    for (unsigned i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == code) return *text = name ? ERRORS[i].name : ERRORS[i].text, OK;
    return *text = NULL, INVALID_VALUE;
}
Result cuGetErrorName(Result code, const char **text) { return described(code, text, 1); }
Result cuGetErrorString(Result code, const char **text) { return described(code, text, 0); }
Result cuGetExportTable(const void **table, const void *id) { (void)table, (void)id; return UNKNOWN; }
Result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    (void)version, (void)flags;
    static void *self;
    Dl_info info;
    if (!self && dladdr((void *)cuInit, &info)) self = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_NOW);
    char newer[200];
    snprintf(newer, sizeof newer, "%s_v2", name);
    *function = dlsym(self, newer);
    if (!*function) *function = dlsym(self, name);
    if (status) *status = *function ? 0 : 1;
    return *function ? OK : NOT_FOUND;
}
Result cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) { return cuGetProcAddress_v2(name, function, version, flags, NULL); }

// What chains of stencils keep lies in arrays on cache lines.
#pragma GCC target("prefer-vector-width=512")
#define ALIGNED __attribute__((aligned(64)))

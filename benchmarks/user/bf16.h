// bfloat16 as a program has it whose compiler lacks the type: 16 bits, widened and rounded by hand. In a reference it is a number.
#ifdef REFERENCE
typedef double bf16;
static inline double wide(bf16 v) { return v; }
static inline bf16 narrow(double v) { return v; }
#else
typedef unsigned short bf16;
static inline float wide(bf16 v) { union { unsigned u; float f; } a = {.u = (unsigned)v << 16}; return a.f; }
static inline bf16 narrow(float v) {
  union { float f; unsigned u; } a = {.f = v};
  return (a.u + 0x7fff + (a.u >> 16 & 1)) >> 16;
}
#endif

// Read before the C of a kernel that is compiled as its own reference: each float and each _Float16 is a double, and so are the functions
// and the numbers of bf16.h. With LONG all floating-point numbers are long doubles; such a file takes its functions from <tgmath.h>.
#define REFERENCE
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef LONG
#include <tgmath.h>
typedef long double wide;
#define float wide
#define double wide
#else
#define float double
#define _Float16 double
#define atan2f atan2
#define ceilf ceil
#define cosf cos
#define erfcf erfc
#define erff erf
#define exp2f exp2
#define expf exp
#define expm1f expm1
#define fabsf fabs
#define floorf floor
#define fmaxf fmax
#define fminf fmin
#define log1pf log1p
#define log2f log2
#define logf log
#define lrintf lrint
#define powf pow
#define rintf rint
#define sinf sin
#define sqrtf sqrt
#endif

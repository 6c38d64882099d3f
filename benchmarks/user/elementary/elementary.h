// T is the type of the elements, K casts a constant to it. VALUE is an expression of x (and z); functions are those of <tgmath.h>.
#include <tgmath.h>
#if BITS == 64
typedef double T;
#else
typedef float T;
#endif
#define K(v) ((T)(v))

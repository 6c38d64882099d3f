#include <math.h>
void kernel(const int *restrict start, const int *restrict end, const double *restrict g, const double *restrict y,
            const double *restrict charge, const double *restrict tap, const double *restrict vm, const double *restrict va,
            double *restrict p, double *restrict q, double *restrict loss) {
  for (int i = 0; i < B; i++) p[i] = q[i] = 0;
  for (int e = 0; e < N; e++) {
    int s = start[e], t = end[e];
    double vs = vm[s] / tap[e], vt = vm[t], apart = va[s] - va[t], c = vs * vt * cos(apart), d = vs * vt * sin(apart);
    double half = y[e] + 0.5 * charge[e];
    double pf = vs * vs * g[e] - g[e] * c - y[e] * d, pt = vt * vt * g[e] - g[e] * c + y[e] * d;
    p[s] += pf;
    p[t] += pt;
    q[s] += y[e] * c - g[e] * d - vs * vs * half;
    q[t] += y[e] * c + g[e] * d - vt * vt * half;
    loss[e] = pf + pt;
  }
}

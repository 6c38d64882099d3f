#include <math.h>
static double share[N];
void kernel(const double *restrict rank, const int *restrict degree, const int (*restrict of)[L], double *restrict y,
            double *restrict change) {
  double moved = 0;
#pragma omp parallel for
  for (int s = 0; s < N; s++) share[s] = rank[s] / degree[s];
#pragma omp parallel for reduction(+ : moved)
  for (int i = 0; i < N; i++) {
    double got = 0;
    for (int k = 0; k < L; k++) got += share[of[i][k]];
    y[i] = 0.15 / N + 0.85 * got;
    moved += fabs(y[i] - rank[i]);
  }
  change[0] = moved;
}

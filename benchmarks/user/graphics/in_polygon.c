#include <stdbool.h>
void kernel(const float (*restrict at)[2], const float (*restrict corner)[2], bool *restrict inside) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float x = at[i][0], y = at[i][1];
    bool in = false;
    for (int e = 0, f = K - 1; e < K; f = e++)
      if ((corner[e][1] > y) != (corner[f][1] > y) &&
          x < (corner[e][0] - corner[f][0]) * (y - corner[f][1]) / (corner[e][1] - corner[f][1]) + corner[f][0])
        in = !in;
    inside[i] = in;
  }
}

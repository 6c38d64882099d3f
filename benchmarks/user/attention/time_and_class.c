#include <math.h>
#include "../bf16.h"

void kernel(const float *restrict rate, const bf16 *restrict gain, bf16 (*restrict y)[D], float *restrict slope) {
#pragma omp parallel for
  for (int i = 0; i < S; i++) {
    float power = 0;
    for (int j = 0; j < D / 2; j++) {
      float turn = i * rate[j];
      y[i][2 * j] = narrow(sinf(turn) * wide(gain[2 * j]));
      y[S - 1 - i][D - 1 - 2 * j] = narrow(cosf(turn) * wide(gain[2 * j + 1]));
      power += (turn + j) * (i == S - 1 ? 2 : 1);
    }
    slope[S - 1 - i] = power > S - i ? power : S - i;
  }
}

#include <stdint.h>
void kernel(const int16_t (*restrict x)[(F - 1) * S + L], int64_t (*restrict power)[F], int16_t (*restrict crossings)[F],
            uint8_t (*restrict vowel)[F]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++)
    for (int k = 0; k < F; k++) {
      const int16_t *v = x[i] + S * k;
      int64_t energy = 0;
      int cross = 0;
      for (int p = 0; p < L; p++) energy += v[p] * v[p];
      for (int p = 0; p < L - 1; p++) cross += (v[p] ^ v[p + 1]) < 0;
      power[i][k] = energy, crossings[i][k] = cross;
      vowel[i][k] = energy > L * 357913941LL && cross * 2 < L;
    }
}

#include <math.h>
void kernel(const float (*restrict q)[L], const float (*restrict turned)[R], const _Float16 (*restrict latent)[L],
            const _Float16 (*restrict place)[R], float (*restrict y)[L]) {
  static float v[T][L], u[T][R];
#pragma omp parallel for
  for (int j = 0; j < T; j++) {
    for (int a = 0; a < L; a++) v[j][a] = latent[j][a];
    for (int b = 0; b < R; b++) u[j][b] = place[j][b];
  }
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    float p[T], out[L], most = -INFINITY, total = 0;
    for (int j = 0; j < T; j++) {
      float s = 0;
      for (int a = 0; a < L; a++) s += q[i][a] * v[j][a];
      for (int b = 0; b < R; b++) s += turned[i][b] * u[j][b];
      p[j] = s / sqrtf(L + R);
      most = fmaxf(most, p[j]);
    }
    for (int j = 0; j < T; j++) total += p[j] = expf(p[j] - most);
    for (int a = 0; a < L; a++) out[a] = 0;
    for (int j = 0; j < T; j++)
      for (int a = 0; a < L; a++) out[a] += p[j] * v[j][a];
    for (int a = 0; a < L; a++) y[i][a] = out[a] / total;
  }
}

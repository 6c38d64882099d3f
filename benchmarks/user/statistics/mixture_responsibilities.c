#include <math.h>
void kernel(const float (*restrict x)[D], const float (*restrict mu)[D], const float (*restrict iv)[D],
            const float *restrict logw, float (*restrict r)[K], float *restrict likelihood) {
  float every = 0;
#pragma omp parallel for reduction(+ : every)
  for (int i = 0; i < N; i++) {
    float score[K], top = -INFINITY, total = 0;
    for (int c = 0; c < K; c++) {
      float far = 0;
      for (int e = 0; e < D; e++) far += (x[i][e] - mu[c][e]) * (x[i][e] - mu[c][e]) * iv[c][e];
      score[c] = logw[c] - 0.5f * far;
      top = score[c] > top ? score[c] : top;
    }
    for (int c = 0; c < K; c++) total += score[c] = expf(score[c] - top);
    for (int c = 0; c < K; c++) r[i][c] = score[c] / total;
    every += top + logf(total);
  }
  likelihood[0] = every;
}

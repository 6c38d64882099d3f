#include <math.h>
void kernel(const float (*restrict x)[M], const float *restrict y, float *restrict score, int *restrict ranks) {
  for (int k = 0; k <= M; k++) ranks[k] = 0;
#pragma omp parallel for reduction(+ : ranks[:M + 1])
  for (int i = 0; i < N; i++) {
    float far = 0, apart = 0;
    int rank = 0;
    for (int a = 0; a < M; a++) far += fabsf(x[i][a] - y[i]), rank += x[i][a] < y[i];
    for (int b = 0; b < M; b++)
      for (int c = b + 1; c < M; c++) apart += fabsf(x[i][b] - x[i][c]);
    score[i] = far / M - apart / (M * M);
    ranks[rank]++;
  }
}

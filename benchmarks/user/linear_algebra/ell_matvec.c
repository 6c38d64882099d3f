void kernel(const float (*restrict value)[M], const int (*restrict at)[M], const float *restrict x, float *restrict y) {
#pragma omp parallel for simd
  for (int i = 0; i < M; i++) {
    float total = 0;
    for (int k = 0; k < L; k++) total += value[k][i] * x[at[k][i]];
    y[i] = total;
  }
}

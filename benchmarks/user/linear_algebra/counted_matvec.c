void kernel(const float (*restrict value)[L], const float *restrict x, const int (*restrict column)[L], const int *restrict many,
            float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total = 0;
    for (int k = 0; k < many[i]; k++) total += value[i][k] * x[column[i][k]];
    y[i] = total;
  }
}

void kernel(const float (*restrict x)[W], const int *restrict row, const int *restrict column,
            const float *restrict down,
            const float *restrict right, float (*restrict y)[Q]) {
#pragma omp parallel for
  for (int i = 0; i < P; i++) {
    const float *a = x[row[i]], *b = x[row[i] + 1];
#pragma omp simd
    for (int j = 0; j < Q; j++) {
      int c = column[j];
      float top = a[c] * (1 - right[j]) + a[c + 1] * right[j], bottom = b[c] * (1 - right[j]) + b[c + 1] * right[j];
      y[i][j] = top * (1 - down[i]) + bottom * down[i];
    }
  }
}

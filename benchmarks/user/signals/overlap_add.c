void kernel(const float (*restrict x)[4 * Q], const float *restrict w, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < F + 3; i++) {
    float *o = y + i * Q;
    for (int j = 0; j < Q; j++) o[j] = 0;
    for (int k = 0; k < 4; k++)
      if (i - k >= 0 && i - k < F)
        for (int j = 0; j < Q; j++) o[j] += x[i - k][k * Q + j] * w[k * Q + j];
  }
}

void kernel(const float (*restrict x)[F], const unsigned char (*restrict which)[31], const float (*restrict limit)[31],
            const float (*restrict leaf)[32], float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total = 0;
    for (int a = 0; a < T; a++) {
      int node = 0;
      for (int depth = 0; depth < 5; depth++) node = 2 * node + 1 + (x[i][which[a][node]] > limit[a][node]);
      total += leaf[a][node - 31];
    }
    y[i] = total / T;
  }
}

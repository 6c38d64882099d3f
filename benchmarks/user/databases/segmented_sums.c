void kernel(const int (*restrict start)[T], const float (*restrict x)[T], float (*restrict y)[T]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float h = 0;
    for (int j = 0; j < T; j++) y[i][j] = h = start[i][j] ? x[i][j] : h + x[i][j];
  }
}

void kernel(const float (*restrict x)[N], unsigned char *restrict any, unsigned char *restrict all) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    int some = 0, every = 1;
    for (int j = 0; j < N; j++) {
      some |= x[i][j] > 3;
      every &= x[i][j] > -2.5f;
    }
    any[i] = some;
    all[i] = every;
  }
}

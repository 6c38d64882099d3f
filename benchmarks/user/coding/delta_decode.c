void kernel(const long *restrict base, const unsigned short (*restrict delta)[N], long (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    long time = base[i];
    for (int j = 0; j < N; j++) y[i][j] = time += (delta[i][j] >> 1) ^ -(delta[i][j] & 1);
  }
}

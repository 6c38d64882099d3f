void kernel(const long long *restrict first, const unsigned short (*restrict z)[N], long long (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    long long v = first[i];
    for (int j = 0; j < N; j++) {
      int w = z[i][j];
      y[i][j] = v += w >> 1 ^ -(w & 1);
    }
  }
}

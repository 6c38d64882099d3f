void kernel(const unsigned long long (*restrict bits)[W], const int *restrict a, const int *restrict b, int *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < E; i++) {
    const unsigned long long *p = bits[a[i]], *q = bits[b[i]];
    int many = 0;
    for (int k = 0; k < W; k++) many += __builtin_popcountll(p[k] & q[k]);
    y[i] = many;
  }
}

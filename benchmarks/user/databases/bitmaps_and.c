typedef unsigned long long u64;
void kernel(const u64 *restrict a, const u64 *restrict b, const u64 *restrict c, const u64 *restrict d, u64 *restrict y,
            long long *restrict count) {
  long long many = 0;
#pragma omp parallel for reduction(+ : many)
  for (int i = 0; i < N; i++) {
    u64 v = a[i] & b[i] & c[i] & ~d[i];
    y[i] = v;
    many += __builtin_popcountll(v);
  }
  count[0] = many;
}

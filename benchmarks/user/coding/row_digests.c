typedef long long i64;
typedef unsigned long long u64;
void kernel(const u64 (*restrict x)[N], i64 *restrict row, i64 *restrict column, i64 *restrict all) {
  u64 down[N] = {0}, whole = 1;
  for (int i = 0; i < M; i++) {
    u64 total = 0;
    for (int j = 0; j < N; j++) {
      u64 v = x[i][j];
      total += (v * 31 + j) * (v + 7ull * j * j) + v * v * v;
      down[j] ^= (v + i) * (v - i) * 0x9E3779B1ull;
    }
    row[i] = (i64)total ^ ((i64)total >> 32);
    whole *= total | 1;
  }
  for (int j = 0; j < N; j++) column[j] = (i64)down[j] > (i64)(down[j] * -3) ? (i64)down[j] : (i64)(down[j] * -3);
  *all = whole;
}

typedef unsigned short u16;
static u16 hi(u16 a, u16 b) { return a > b ? a : b; }
static u16 lo(u16 a, u16 b) { return a < b ? a : b; }
#define SEVEN(f, l, r) f(f(f(c[k], a[k]), f(b[k], p[k])), f(q[k], f(c[l], c[r])))
__attribute__((noinline)) static void row(const u16 *restrict c, const u16 *restrict a, const u16 *restrict b,
                                          const u16 *restrict p, const u16 *restrict q, u16 *restrict o) {
  int k = 0;
  o[k] = SEVEN(hi, k, k + 1) - SEVEN(lo, k, k + 1);
  for (k = 1; k < W - 1; k++) o[k] = SEVEN(hi, k - 1, k + 1) - SEVEN(lo, k - 1, k + 1);
  o[k] = SEVEN(hi, k - 1, k) - SEVEN(lo, k - 1, k);
}
void kernel(const u16 (*restrict x)[H][W], u16 (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int i = 0; i < D; i++)
    for (int j = 0; j < H; j++)
      row(x[i][j], x[i ? i - 1 : 0][j], x[i < D - 1 ? i + 1 : i][j], x[i][j ? j - 1 : 0], x[i][j < H - 1 ? j + 1 : j], y[i][j]);
}

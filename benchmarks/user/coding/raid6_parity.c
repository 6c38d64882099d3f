typedef unsigned char u8;
__attribute__((noinline)) static void some(const u8 (*restrict x)[N], u8 *restrict p, u8 *restrict q, int from, int to) {
  for (int i = from; i < to; i++) {
    u8 a = x[D - 1][i], b = a;
#pragma GCC unroll 32
    for (int k = D - 2; k >= 0; k--) {
      a ^= x[k][i];
      b = (u8)(b << 1) ^ (b >= 128 ? 0x1d : 0) ^ x[k][i];
    }
    p[i] = a, q[i] = b;
  }
}
void kernel(const u8 (*restrict x)[N], u8 *restrict p, u8 *restrict q) {
#pragma omp parallel for
  for (int i = 0; i < N; i += 4096) some(x, p, q, i, i + 4096 < N ? i + 4096 : N);
}

typedef unsigned long long u64;
static void word(const u64 *u, const u64 *m, const u64 *d, u64 *y, int a, int j, int b) {
  u64 u0 = u[j] << 1 | u[a] >> 63, u1 = u[j], u2 = u[j] >> 1 | u[b] << 63;
  u64 d0 = d[j] << 1 | d[a] >> 63, d1 = d[j], d2 = d[j] >> 1 | d[b] << 63;
  u64 l = m[j] << 1 | m[a] >> 63, r = m[j] >> 1 | m[b] << 63;
  u64 su = u0 ^ u1 ^ u2, cu = (u0 & u1) | ((u0 ^ u1) & u2), sd = d0 ^ d1 ^ d2, cd = (d0 & d1) | ((d0 ^ d1) & d2);
  u64 sm = l ^ r, cm = l & r, low = su ^ sd ^ sm, carry = (su & sd) | ((su ^ sd) & sm);
  u64 twos = cu ^ cd ^ cm, fours = (cu & cd) | ((cu ^ cd) & cm);
  y[j] = (twos ^ carry) & ~(fours | (twos & carry)) & (low | m[j]);
}
static void row(const u64 *restrict u, const u64 *restrict m, const u64 *restrict d, u64 *restrict y) {
  word(u, m, d, y, W - 1, 0, 1);
  for (int j = 1; j < W - 1; j++) word(u, m, d, y, j - 1, j, j + 1);
  word(u, m, d, y, W - 2, W - 1, 0);
}
void kernel(const u64 (*restrict x)[W], u64 (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(x[i ? i - 1 : H - 1], x[i], x[i < H - 1 ? i + 1 : 0], y[i]);
}

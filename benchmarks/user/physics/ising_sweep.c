typedef signed char s8;
typedef unsigned char u8;
static s8 spin(s8 c, u8 near, u8 r, u8 red) {
  u8 gain = c * (2 * near - 4) + 4 - near, limit = gain == 3 ? 44 : 8;
  u8 flip = (gain <= 2) | (r < limit);
  return c ^ (flip & red);
}
static void row(const s8 *restrict u, const s8 *restrict d, const s8 *restrict c, const u8 *restrict r, s8 *restrict o, int i) {
  for (int j = 1; j < W - 1; j++) o[j] = spin(c[j], u[j] + d[j] + c[j - 1] + c[j + 1], r[j], 1);
  o[0] = spin(c[0], u[0] + d[0] + c[W - 1] + c[1], r[0], 1);
  o[W - 1] = spin(c[W - 1], u[W - 1] + d[W - 1] + c[W - 2] + c[0], r[W - 1], 1);
  for (int j = 1 - i % 2; j < W; j += 2) o[j] = c[j];
}
void kernel(const s8 (*restrict s)[W], const u8 (*restrict r)[W], s8 (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(s[i ? i - 1 : H - 1], s[i < H - 1 ? i + 1 : 0], s[i], r[i], y[i], i);
}

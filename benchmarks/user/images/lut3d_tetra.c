typedef unsigned short u16;
static void row(const u16 (*restrict x)[3], const u16 (*restrict cube)[3], u16 (*restrict y)[3]) {
  int base[W], one[W], two[W], u[W], v[W], w[W];
  for (int j = 0; j < W; j++) {
    int r = x[j][0] & 63, g = x[j][1] & 63, b = x[j][2] & 63;
    int most = r > g ? r : g, least = r < g ? r : g;
    most = most > b ? most : b;
    least = least < b ? least : b;
    int p = (x[j][0] >> 6) * 289 + (x[j][1] >> 6) * 17 + (x[j][2] >> 6), a = g == most ? 17 : 1, d = g == least ? 17 : 289;
    base[j] = p, one[j] = p + (r == most ? 289 : a), two[j] = p + 307 - (b == least ? 1 : d);
    u[j] = most, v[j] = r + g + b - most - least, w[j] = least;
  }
  for (int j = 0; j < W; j++) {
    const u16 *p = cube[base[j]], *q = cube[one[j]], *r = cube[two[j]], *s = cube[base[j] + 307];
    for (int c = 0; c < 3; c++)
      y[j][c] = (32 + (64 - u[j]) * p[c] + (u[j] - v[j]) * q[c] + (v[j] - w[j]) * r[c] + w[j] * s[c]) >> 6;
  }
}
void kernel(const u16 (*restrict x)[W][3], const u16 (*restrict cube)[3], u16 (*restrict y)[W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(x[i], cube, y[i]);
}

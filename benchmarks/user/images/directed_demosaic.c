#include <stdlib.h>
static int kept(int v) { return v < 0 ? 0 : v > 4095 ? 4095 : v; }
void kernel(const unsigned short (*restrict x)[2 * W + 6], unsigned short (*restrict y)[2 * W][3]) {
  static short green[2 * H + 2][2 * W + 2], rest[2 * H + 2][2 * W + 2];
#pragma omp parallel for
  for (int r = 0; r < 2 * H + 2; r++) {
    const unsigned short *n2 = x[r] + 2, *n = x[r + 1] + 2, *m = x[r + 2] + 2, *s = x[r + 3] + 2, *s2 = x[r + 4] + 2;
    for (int c = 0; c < 2 * W + 2; c++) {
      int bh = 2 * m[c] - m[c - 2] - m[c + 2], bv = 2 * m[c] - n2[c] - s2[c];
      int sh = abs(m[c - 1] - m[c + 1]) + abs(bh), sv = abs(n[c] - s[c]) + abs(bv);
      int gh = 2 * (m[c - 1] + m[c + 1]) + bh, gv = 2 * (n[c] + s[c]) + bv;
      int best = kept(((sh < sv ? 2 * gh : sv < sh ? 2 * gv : gh + gv) + 4) >> 3), g = (r + c) % 2 ? m[c] : best;
      green[r][c] = g, rest[r][c] = m[c] - g;
    }
  }
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      for (int p = 0; p < 2; p++)
        for (int q = 0; q < 2; q++) {
          int r = 2 * i + p + 1, c = 2 * j + q + 1;
          const short *n = &rest[r - 1][c], *m = &rest[r][c], *s = &rest[r + 1][c];
          int row = (m[-1] + m[1]) >> 1, column = (n[0] + s[0]) >> 1, corner = (n[-1] + n[1] + s[-1] + s[1]) >> 2;
          int red = p ? (q ? corner : column) : (q ? row : m[0]), blue = p ? (q ? m[0] : row) : (q ? column : corner);
          unsigned short *to = y[r - 1][c - 1];
          to[0] = kept(green[r][c] + red), to[1] = green[r][c], to[2] = kept(green[r][c] + blue);
        }
}

#include <string.h>
void kernel(const unsigned char (*restrict ground)[W], const unsigned char *restrict team, const int *restrict py,
            const int *restrict px, const int *restrict sight, unsigned char (*restrict seen)[W]) {
  memset(seen, 0, H * W);
  for (int i = 0; i < U; i++) {
    int s = sight[i], up = ground[py[i]][px[i]] + 24;
    for (int a = -s; a <= s; a++) {
      int y = py[i] + a;
      if (y < 0 || y >= H) continue;
      for (int b = -s; b <= s; b++) {
        int x = px[i] + b;
        if (x >= 0 && x < W && a * a + b * b <= s * s && ground[y][x] <= up) seen[y][x] |= 1 << team[i];
      }
    }
  }
}

#include <stdlib.h>
void kernel(const short *restrict row, const short *restrict col, const int *restrict at_row, const int *restrict at_col,
            int (*restrict change)[W]) {
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++) change[y][x] = 0;
  for (int b = 0; b < M; b++) {
    int dr = row[b] - *at_row, dc = col[b] - *at_col, n = abs(dr) > abs(dc) ? abs(dr) : abs(dc);
    for (int k = 0; k < n; k++)
      change[(2 * (*at_row * n + dr * k) + n) / (2 * n)][(2 * (*at_col * n + dc * k) + n) / (2 * n)] -= 2;
    change[row[b]][col[b]] += 7;
  }
}

#include <stdbool.h>
void kernel(const float (*restrict x)[N], const float *restrict lo, int *restrict first, short *restrict count,
            bool *restrict low, bool *restrict fine, unsigned char (*restrict mask)[N]) {
  for (int j = 0; j < N; j++) fine[j] = true;
  for (int i = 0; i < M; i++) {
    int at = N, many = 0, all = 1;
    for (int j = 0; j < N; j++) {
      int bad = (x[i][j] < lo[j]) | (x[i][j] > 2);
      at = bad && j < at ? j : at;
      many += bad;
      all &= bad | (x[i][j] < 0.5f);
      fine[j] &= !bad;
      mask[i][j] = bad ? 255 : 0;
    }
    first[i] = at;
    count[i] = many;
    low[i] = all;
  }
}

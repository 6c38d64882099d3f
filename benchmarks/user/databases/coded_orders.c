#include <limits.h>
typedef unsigned char u8;
void kernel(const u8 *restrict shop, const short *restrict day, const unsigned short *restrict code, const short *restrict units,
            const u8 *restrict off, const u8 *restrict region, const u8 *restrict is_open, const int *restrict cents,
            int *restrict orders, long *restrict sold, long *restrict money, int *restrict least, int *restrict most) {
  for (int r = 0; r < G; r++) orders[r] = 0, sold[r] = money[r] = 0, least[r] = INT_MAX, most[r] = INT_MIN;
#pragma omp parallel for reduction(+ : orders[:G], sold[:G], money[:G]) reduction(min : least[:G]) reduction(max : most[:G])
  for (int i = 0; i < N; i++) {
    if (day[i] < 400 || day[i] >= 1600 || !is_open[shop[i]]) continue;
    int r = region[shop[i]], price = cents[code[i]];
    orders[r]++;
    sold[r] += units[i];
    money[r] += (long)(price * units[i]) * (100 - off[i]);
    if (price < least[r]) least[r] = price;
    if (price > most[r]) most[r] = price;
  }
}

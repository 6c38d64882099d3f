#include <string.h>
typedef unsigned char u8;
static void row(const u8 *restrict n, const u8 *restrict s, const u8 *restrict v, const int *restrict weight,
                const unsigned short *restrict r, int odd, u8 *restrict black) {
  u8 side[W];
  memcpy(side + !odd, v + odd, W - 1), side[odd ? W - 1 : 0] = v[odd ? 0 : W - 1];
  for (int j = 0; j < W; j++) {
    int up[5], sum = 0, colour = 0;
    for (int k = 0; k < 5; k++) up[k] = sum += weight[(n[j] == k) + (s[j] == k) + (v[j] == k) + (side[j] == k)];
    for (int k = 0; k < 4; k++) colour += up[k] <= r[j] * sum >> 16;
    black[j] = colour;
  }
}
void kernel(const u8 (*restrict white)[W], const int *restrict weight, const unsigned short (*restrict r)[W], u8 (*restrict black)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(white[(i + H - 1) % H], white[(i + 1) % H], white[i], weight, r[i], i % 2, black[i]);
}

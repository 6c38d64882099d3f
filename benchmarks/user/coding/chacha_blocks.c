#define T(x, y, by) x ^= y, x = x << by | x >> (32 - by)
#define Q(a, b, c, d) a += b, T(d, a, 16), c += d, T(b, c, 12), a += b, T(d, a, 8), c += d, T(b, c, 7);
#define TWO Q(a0, b0, c0, d0) Q(a1, b1, c1, d1) Q(a2, b2, c2, d2) Q(a3, b3, c3, d3) \
  Q(a0, b1, c2, d3) Q(a1, b2, c3, d0) Q(a2, b3, c0, d1) Q(a3, b0, c1, d2)
typedef unsigned u32;
void kernel(const u32 *restrict k, const u32 *restrict s, u32 (*restrict y)[16]) {
#pragma omp parallel for simd
  for (int i = 0; i < N; i++) {
    u32 a0 = 0x61707865, a1 = 0x3320646e, a2 = 0x79622d32, a3 = 0x6b206574, b0 = k[0], b1 = k[1], b2 = k[2], b3 = k[3];
    u32 c0 = k[4], c1 = k[5], c2 = k[6], c3 = k[7], d0 = i, d1 = s[0], d2 = s[1], d3 = s[2];
    TWO TWO TWO TWO
    y[i][0] = a0 + 0x61707865, y[i][1] = a1 + 0x3320646e, y[i][2] = a2 + 0x79622d32, y[i][3] = a3 + 0x6b206574;
    y[i][4] = b0 + k[0], y[i][5] = b1 + k[1], y[i][6] = b2 + k[2], y[i][7] = b3 + k[3];
    y[i][8] = c0 + k[4], y[i][9] = c1 + k[5], y[i][10] = c2 + k[6], y[i][11] = c3 + k[7];
    y[i][12] = d0 + i, y[i][13] = d1 + s[0], y[i][14] = d2 + s[1], y[i][15] = d3 + s[2];
  }
}

static unsigned char byte(int v) { v >>= 8; return v < 0 ? 0 : v > 255 ? 255 : v; }
void kernel(const unsigned char (*restrict y)[W], const unsigned char (*restrict u)[W / 2],
            const unsigned char (*restrict v)[W / 2], unsigned char (*restrict rgb)[W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int a = 298 * (y[i][j] - 16) + 128, b = u[i / 2][j / 2] - 128, c = v[i / 2][j / 2] - 128;
      rgb[i][j][0] = byte(a + 409 * c);
      rgb[i][j][1] = byte(a - 100 * b - 208 * c);
      rgb[i][j][2] = byte(a + 516 * b);
    }
}

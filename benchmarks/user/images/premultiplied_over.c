static void row(const unsigned char (*restrict over)[4], const unsigned char (*restrict under)[4], unsigned char (*restrict y)[4]) {
  for (int j = 0; j < W; j++)
    for (int c = 0; c < 4; c++) {
      int seen = over[j][c] + (under[j][c] * (255 - over[j][3]) + 127) / 255;
      y[j][c] = seen > 255 ? 255 : seen;
    }
}
void kernel(const unsigned char (*restrict over)[W][4], const unsigned char (*restrict under)[W][4],
            unsigned char (*restrict y)[W][4]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(over[i], under[i], y[i]);
}

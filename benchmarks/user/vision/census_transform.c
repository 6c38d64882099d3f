#define B(p, q) code = code << 1 | (unsigned)(x[p][j + q] < x[2][j + 2]);
#define ROW(p) B(p, 0) B(p, 1) B(p, 2) B(p, 3) B(p, 4)
static void row(const unsigned char (*restrict x)[W + 4], unsigned *restrict y) {
  for (int j = 0; j < W; j++) {
    unsigned code = 0;
    ROW(0) ROW(1) B(2, 0) B(2, 1) B(2, 3) B(2, 4) ROW(3) ROW(4)
    y[j] = code;
  }
}
void kernel(const unsigned char (*restrict x)[W + 4], unsigned (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(x + i, y[i]);
}

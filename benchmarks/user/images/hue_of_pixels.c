static float least(float a, float b) { return a < b ? a : b; }
static float most(float a, float b) { return a > b ? a : b; }
void kernel(const unsigned char (*restrict x)[W][3], unsigned char (*restrict y)[W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float r = x[i][j][0], g = x[i][j][1], b = x[i][j][2];
      float top = most(most(r, g), b), span = top - least(least(r, g), b), over = 30 / most(span, 1);
      float turn = top == r ? (g - b) * over : top == g ? (b - r) * over + 60 : (r - g) * over + 120;
      y[i][j][0] = turn < 0 ? turn + 180 : turn;
      y[i][j][1] = span * 255 / most(top, 1);
      y[i][j][2] = top;
    }
}

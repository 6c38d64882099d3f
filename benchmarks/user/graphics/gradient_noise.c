static float slope(const int *table, int row, int column, float x, float y) {
  int bits = table[table[column & 255] + (row & 255)];
  return (bits & 1 ? -x : x) + (bits & 2 ? -y : y);
}
static float smooth(float t) { return t * t * t * (t * (t * 6 - 15) + 10); }
void kernel(const int *restrict table, float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int row = i / 24, column = j / 24;
      float d = i % 24 * (1 / 24.f), r = j % 24 * (1 / 24.f), u = smooth(r);
      float a = slope(table, row, column, r, d), b = slope(table, row, column + 1, r - 1, d);
      float e = slope(table, row + 1, column, r, d - 1), f = slope(table, row + 1, column + 1, r - 1, d - 1);
      float top = a + u * (b - a), low = e + u * (f - e);
      y[i][j] = top + smooth(d) * (low - top);
    }
}

void kernel(const float (*restrict e)[W], const float (*restrict px)[W], const float (*restrict py)[W],
            const float (*restrict hx)[W], const float (*restrict hy)[W + 1], const unsigned char (*restrict matter)[W],
            const float *restrict keep, const float *restrict gain, const float (*restrict cx)[W],
            const float (*restrict cy)[H], float (*restrict e_new)[W], float (*restrict px_new)[W], float (*restrict py_new)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
#pragma omp simd
    for (int j = 0; j < W; j++) {
      float along = hy[i][j + 1] - hy[i][j], down = hx[i + 1][j] - hx[i][j];
      float x = cx[0][j] * px[i][j] - cx[1][j] * along, y = cy[0][i] * py[i][j] - cy[1][i] * down;
      int m = matter[i][j];
      e_new[i][j] = keep[m] * e[i][j] + gain[m] * (cx[2][j] * along + x - cy[2][i] * down - y);
      px_new[i][j] = x, py_new[i][j] = y;
    }
}

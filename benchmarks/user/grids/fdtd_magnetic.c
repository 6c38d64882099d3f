static void rows(const float (*restrict e)[W], const float (*restrict hx)[W], const float (*restrict hy)[W],
                 float (*restrict x)[W], float (*restrict y)[W], int begin, int end) {
  for (int i = begin; i < end; i++)
    for (int j = 0; j < W; j++) {
      x[i][j] = j < W - 1 ? hx[i][j] - 0.5f * (e[i][j + 1] - e[i][j]) : hx[i][j];
      y[i][j] = i < H - 1 ? hy[i][j] + 0.5f * (e[i + 1][j] - e[i][j]) : hy[i][j];
    }
}
void kernel(const float (*restrict e)[W], const float (*restrict hx)[W], const float (*restrict hy)[W],
            float (*restrict x)[W], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i += 16) rows(e, hx, hy, x, y, i, i + 16 < H ? i + 16 : H);
}

static float least(float a, float b) { return a < b ? a : b; }
static float most(float a, float b) { return a > b ? a : b; }
void kernel(const float (*restrict a)[4], const float (*restrict b)[4], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float wide = least(a[i][0] + a[i][2], b[j][0] + b[j][2]) - most(a[i][0], b[j][0]);
      float high = least(a[i][1] + a[i][3], b[j][1] + b[j][3]) - most(a[i][1], b[j][1]);
      float both = most(wide, 0) * most(high, 0);
      y[i][j] = both / (a[i][2] * a[i][3] + b[j][2] * b[j][3] - both + 1e-6f);
    }
}

static void plane(const float (*restrict core)[R][R], const float *restrict u, const float (*restrict v)[R],
                  const float (*restrict w)[K], float (*restrict y)[K]) {
  float some[R][R] = {0};
  for (int a = 0; a < R; a++)
    for (int b = 0; b < R; b++)
      for (int c = 0; c < R; c++) some[b][c] += u[a] * core[a][b][c];
  for (int q = 0; q < J; q++) {
    float row[R] = {0};
    for (int b = 0; b < R; b++)
      for (int c = 0; c < R; c++) row[c] += v[q][b] * some[b][c];
    for (int s = 0; s < K; s++) {
      float total = 0;
      for (int c = 0; c < R; c++) total += row[c] * w[c][s];
      y[q][s] = total;
    }
  }
}
void kernel(const float (*restrict core)[R][R], const float (*restrict u)[R], const float (*restrict v)[R],
            const float (*restrict w)[K], float (*restrict y)[J][K]) {
#pragma omp parallel for
  for (int p = 0; p < I; p++) plane(core, u[p], v, w, y[p]);
}

static float first[I][J][R], second[I][R][R];
void kernel(const float (*restrict x)[J][K], const float (*restrict u)[R], const float (*restrict v)[R],
            const float (*restrict w)[R], float (*restrict y)[R][R]) {
#pragma omp parallel for
  for (int p = 0; p < I; p++) {
    for (int q = 0; q < J; q++) {
      float row[R] = {0};
      for (int s = 0; s < K; s++)
        for (int c = 0; c < R; c++) row[c] += x[p][q][s] * w[s][c];
      for (int c = 0; c < R; c++) first[p][q][c] = row[c];
    }
    for (int b = 0; b < R; b++)
      for (int c = 0; c < R; c++) second[p][b][c] = 0;
    for (int q = 0; q < J; q++)
      for (int b = 0; b < R; b++)
        for (int c = 0; c < R; c++) second[p][b][c] += v[q][b] * first[p][q][c];
  }
  for (int a = 0; a < R; a++)
    for (int b = 0; b < R; b++)
      for (int c = 0; c < R; c++) y[a][b][c] = 0;
  for (int p = 0; p < I; p++)
    for (int a = 0; a < R; a++)
      for (int b = 0; b < R; b++)
        for (int c = 0; c < R; c++) y[a][b][c] += u[p][a] * second[p][b][c];
}

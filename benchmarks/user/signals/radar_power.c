void kernel(const signed char (*restrict x)[G][2], int *restrict y) {
  for (int i = 0; i < G; i++) y[i] = 0;
  for (int j = 0; j < P; j++)
    for (int i = 0; i < G; i++) y[i] += x[j][i][0] * x[j][i][0] + x[j][i][1] * x[j][i][1];
}

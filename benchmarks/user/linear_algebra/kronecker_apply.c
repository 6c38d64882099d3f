void kernel(const float (*restrict m)[P], const float (*restrict n)[Q], const float (*restrict x)[P][Q],
            float (*restrict y)[P][Q]) {
#pragma omp parallel for
  for (int e = 0; e < B; e++) {
    float half[P][Q] = {0};
    for (int i = 0; i < P; i++)
      for (int k = 0; k < P; k++)
        for (int l = 0; l < Q; l++) half[i][l] += m[i][k] * x[e][k][l];
    for (int i = 0; i < P; i++)
      for (int j = 0; j < Q; j++) {
        float total = 0;
        for (int l = 0; l < Q; l++) total += half[i][l] * n[j][l];
        y[e][i][j] = total;
      }
  }
}

void kernel(const float (*restrict x)[C], const float (*restrict edge)[C], int (*restrict y)[C]) {
#pragma omp parallel for
  for (int e = 0; e < Q; e++) {
    int many[C] = {0};
    for (int i = 0; i < N; i++)
      for (int j = 0; j < C; j++) many[j] += x[i][j] < edge[e][j];
    for (int j = 0; j < C; j++) y[e][j] = many[j];
  }
}

static void add(const float *restrict g, float *restrict y) {
  for (int k = 0; k < D; k++) y[k] += g[k];
}
void kernel(const _Float16 (*restrict grad)[D], const int (*restrict ids)[L], float (*restrict y)[D]) {
  for (int k = 0; k < V * D; k++) ((float *)y)[k] = 0;
  for (int i = 0; i < B; i++) {
    float g[D];
    for (int k = 0; k < D; k++) g[k] = grad[i][k] * (1.0f / L);
    for (int j = 0; j < L; j++) add(g, y[ids[i][j]]);
  }
}

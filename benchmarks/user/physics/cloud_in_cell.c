void kernel(const float *restrict x, const float *restrict q, float *restrict rho) {
  for (int k = 0; k < G; k++) rho[k] = 0;
  for (int i = 0; i < N; i++) {
    int cell = x[i] < G - 2 ? x[i] : G - 2;
    float right = x[i] - cell;
    rho[cell] += q[i] * (1 - right);
    rho[cell + 1] += q[i] * right;
  }
}

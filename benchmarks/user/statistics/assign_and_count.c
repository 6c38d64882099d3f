void kernel(const float (*restrict x)[D], const float (*restrict centre)[D], int *restrict label, int *restrict count) {
  for (int c = 0; c < K; c++) count[c] = 0;
#pragma omp parallel for reduction(+ : count[:K])
  for (int i = 0; i < N; i++) {
    float least = 1e30f;
    int at = 0;
    for (int c = 0; c < K; c++) {
      float far = 0;
      for (int e = 0; e < D; e++) far += (x[i][e] - centre[c][e]) * (x[i][e] - centre[c][e]);
      if (far < least) {
        least = far;
        at = c;
      }
    }
    label[i] = at;
    count[at]++;
  }
}

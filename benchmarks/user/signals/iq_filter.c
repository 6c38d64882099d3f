void kernel(const short (*restrict x)[2], const float (*restrict tap)[2], float (*restrict y)[2]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float re = 0, im = 0;
    for (int l = 0; l < K; l++) {
      float a = x[i + l][0], b = x[i + l][1];
      re += a * tap[l][0] - b * tap[l][1];
      im += a * tap[l][1] + b * tap[l][0];
    }
    y[i][0] = re;
    y[i][1] = im;
  }
}

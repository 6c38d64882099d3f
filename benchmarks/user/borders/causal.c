void kernel(const float *restrict x, const float *restrict w, float *restrict y) {
  for (int i = 0; i < C; i++)
    for (int j = 0; j < T; j++) {
      float s = 0;
      for (int q = 0; q < K; q++)
        if (j-q >= 0) s += x[i*T+j-q]*w[i*K+q];
      y[i*T+j] = s;
    }
}

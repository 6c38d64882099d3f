void kernel(const float (*restrict u)[R], const float (*restrict v)[R], const float (*restrict w)[K],
            float (*restrict y)[J][K]) {
#pragma omp parallel for
  for (int p = 0; p < I; p++)
    for (int q = 0; q < J; q++) {
      float both[R];
      for (int e = 0; e < R; e++) both[e] = u[p][e] * v[q][e];
      for (int s = 0; s < K; s++) {
        float total = 0;
        for (int e = 0; e < R; e++) total += both[e] * w[e][s];
        y[p][q][s] = total;
      }
    }
}

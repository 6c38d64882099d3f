void kernel(const double (*restrict a)[2], const double (*restrict b)[2], const double (*restrict p)[T],
            const double (*restrict u)[T], double (*restrict s1)[2], double (*restrict s2)[2]) {
  double r1[T], i1[T], r2[T], i2[T];
  for (int t = 0; t < T; t++) r1[t] = i1[t] = r2[t] = i2[t] = 0;
  for (int k = 0; k < N; k++)
    for (int t = 0; t < T; t++) {
      r1[t] += a[k][0] * p[k][t] + b[k][0] * u[k][t];
      i1[t] += a[k][1] * p[k][t] + b[k][1] * u[k][t];
      r2[t] += a[k][0] * u[k][t] + b[k][0] * p[k][t];
      i2[t] += a[k][1] * u[k][t] + b[k][1] * p[k][t];
    }
  for (int t = 0; t < T; t++) s1[t][0] = r1[t], s1[t][1] = i1[t], s2[t][0] = r2[t], s2[t][1] = i2[t];
}

void kernel(const float (*restrict a)[2], const float (*restrict b)[2], const float (*restrict w)[2],
            float (*restrict sum)[2], float (*restrict difference)[2]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float re = w[i][0] * b[i][0] - w[i][1] * b[i][1], im = w[i][0] * b[i][1] + w[i][1] * b[i][0];
    sum[i][0] = a[i][0] + re;
    sum[i][1] = a[i][1] + im;
    difference[i][0] = a[i][0] - re;
    difference[i][1] = a[i][1] - im;
  }
}

static void row(const float *restrict x, const float *restrict dy, const float *restrict g, float mean, float r,
                float *restrict dx, float *restrict dg, float *restrict db) {
  float s1 = 0, s2 = 0;
  for (int j = 0; j < N; j++) {
    float hat = (x[j] - mean) * r;
    s1 += dy[j] * g[j];
    s2 += dy[j] * g[j] * hat;
  }
  s1 /= N;
  s2 /= N;
  for (int j = 0; j < N; j++) {
    float hat = (x[j] - mean) * r;
    dx[j] = r * (dy[j] * g[j] - s1 - hat * s2);
    dg[j] += dy[j] * hat;
    db[j] += dy[j];
  }
}
void kernel(const float (*restrict x)[N], const float (*restrict dy)[N], const float *restrict g, const float *restrict mean,
            const float *restrict r, float (*restrict dx)[N], float *restrict dg, float *restrict db) {
  for (int j = 0; j < N; j++) dg[j] = db[j] = 0;
#pragma omp parallel for reduction(+ : dg[:N], db[:N])
  for (int i = 0; i < M; i++) row(x[i], dy[i], g, mean[i], r[i], dx[i], dg, db);
}

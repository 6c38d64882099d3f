typedef const float (*restrict vectors)[3];
static float dot(const float *a, const float *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }
static void some(vectors start, vectors way, vectors a, vectors e, vectors f, float *restrict y, int begin, int end) {
  for (int i = begin; i < end; i++) {
    const float *w = way[i];
    float least = 1e9f;
    for (int t = 0; t < K; t++) {
      const float *g = f[t], *h = e[t];
      float o[3] = {start[i][0] - a[t][0], start[i][1] - a[t][1], start[i][2] - a[t][2]};
      float p[3] = {w[1] * g[2] - w[2] * g[1], w[2] * g[0] - w[0] * g[2], w[0] * g[1] - w[1] * g[0]};
      float q[3] = {o[1] * h[2] - o[2] * h[1], o[2] * h[0] - o[0] * h[2], o[0] * h[1] - o[1] * h[0]};
      float over = 1 / dot(h, p), u = dot(o, p) * over, v = dot(w, q) * over, far = dot(g, q) * over;
      if (u >= 0 && v >= 0 && u + v <= 1 && far > 0 && far < least) least = far;
    }
    y[i] = least;
  }
}
void kernel(vectors start, vectors way, vectors a, vectors e, vectors f, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i += 64) some(start, way, a, e, f, y, i, i + 64 < N ? i + 64 : N);
}

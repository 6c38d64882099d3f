static double dot(const double *restrict u, const double *restrict v) {
  double s = 0;
  for (int i = 0; i < N; i++) s += u[i] * v[i];
  return s;
}
static void add(double *restrict u, double f, const double *restrict v) {
  for (int i = 0; i < N; i++) u[i] += f * v[i];
}
void kernel(const double (*restrict s)[N], const double (*restrict y)[N], const double *restrict g, double *restrict p) {
  double alpha[5], bend[5];
  for (int i = 0; i < N; i++) p[i] = -g[i];
  for (int e = 4; e >= 0; e--) {
    bend[e] = dot(s[e], y[e]);
    alpha[e] = dot(s[e], p) / bend[e];
    add(p, -alpha[e], y[e]);
  }
  double gamma = bend[4] / dot(y[4], y[4]);
  for (int i = 0; i < N; i++) p[i] *= gamma;
  for (int e = 0; e < 5; e++) add(p, alpha[e] - dot(y[e], p) / bend[e], s[e]);
}

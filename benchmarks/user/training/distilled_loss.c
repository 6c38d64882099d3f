#include <math.h>
static float row(const float *restrict x, const float *restrict z, int label, float over, float *restrict dx) {
  float tops = -INFINITY, topt = -INFINITY, cold = 0, warm = 0, given = 0, both = 0, mean = 0, p[V], q[V], r[V];
  for (int j = 0; j < V; j++) {
    tops = x[j] > tops ? x[j] : tops;
    topt = z[j] > topt ? z[j] : topt;
    mean += x[j];
  }
  for (int j = 0; j < V; j++) {
    p[j] = expf(x[j] - tops), q[j] = expf((x[j] - tops) / 2), r[j] = expf((z[j] - topt) / 2);
    cold += p[j], warm += q[j], given += r[j], both += r[j] * (z[j] - x[j]);
  }
  for (int j = 0; j < V; j++) dx[j] = over * (q[j] / warm - r[j] / given + 0.5f * (p[j] / cold - 0.1f / V));
  dx[label] -= 0.45f * over;
  float lack = both / given / 2 - topt / 2 - logf(given) + tops / 2 + logf(warm);
  return 2 * lack + 0.5f * (tops + logf(cold) - 0.9f * x[label] - 0.1f * mean / V);
}
void kernel(const float (*restrict x)[V], const float (*restrict z)[V], const int *restrict label, float (*restrict dx)[V],
            float *restrict loss) {
  int many = 0;
  float total = 0;
  for (int i = 0; i < M; i++) many += label[i] >= 0;
  float over = 1.0f / (many > 1 ? many : 1);
#pragma omp parallel for reduction(+ : total)
  for (int i = 0; i < M; i++)
    if (label[i] >= 0) total += row(x[i], z[i], label[i], over, dx[i]);
    else for (int j = 0; j < V; j++) dx[i][j] = 0;
  *loss = total * over;
}

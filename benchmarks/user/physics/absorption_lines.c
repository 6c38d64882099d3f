#include <math.h>
static void line(float centre, float strength, float sigma, float gamma, float *restrict depth) {
  int from = (int)rintf(centre) - 100;
  float share = gamma / (gamma + sigma), a = strength * share * gamma * 0.31830989f;
  float b = strength * (1 - share) / sigma * 0.39894228f, c = -0.5f / (sigma * sigma);
  for (int k = 0; k < 201; k++) {
    float off = from + k - centre;
    depth[from + k] += a / (off * off + gamma * gamma) + b * expf(c * off * off);
  }
}
void kernel(const float *restrict centre, const float *restrict strength, const float *restrict sigma, const float *restrict gamma,
            float *restrict depth) {
  for (int i = 0; i < V; i++) depth[i] = 0;
  for (int l = 0; l < N; l++) line(centre[l], strength[l], sigma[l], gamma[l], depth);
}

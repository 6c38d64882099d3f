#include <math.h>
static inline float slope(float x) { return fabsf(x) < 1e-3f ? 1 + x * 0.5f : x / (1 - expf(-x)); }
static inline float step(float x, float a, float b) { return x + 0.01f * (a * (1 - x) - b * x); }
void kernel(const float *restrict volt, const float *restrict m, const float *restrict h, const float *restrict g,
            const float (*restrict weight)[K], const unsigned char *restrict fired, const int (*restrict near)[K],
            float *restrict nv, float *restrict nm, float *restrict nh, float *restrict ng) {
  static float drive[N];
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float s = 0;
    for (int k = 0; k < K; k++) s += fired[near[i][k]] * weight[i][k];
    drive[i] = s;
  }
#pragma omp parallel for simd
  for (int i = 0; i < N; i++) {
    float u = volt[i], g2 = g[i] * g[i];
    float flow = 120 * m[i] * m[i] * m[i] * h[i] * (u - 50) + 36 * g2 * g2 * (u + 77) + 0.3f * (u + 54.4f);
    nv[i] = u + 0.01f * (5 * drive[i] - flow);
    nm[i] = step(m[i], slope(0.1f * (u + 40)), 4 * expf((u + 65) * (-1 / 18.0f)));
    nh[i] = step(h[i], 0.07f * expf((u + 65) * -0.05f), 1 / (1 + expf((u + 35) * -0.1f)));
    ng[i] = step(g[i], 0.1f * slope(0.1f * (u + 55)), 0.125f * expf((u + 65) * -0.0125f));
  }
}

#include <math.h>
static void layer(const float *restrict t, const float *restrict s, float deep, float *restrict above, float *restrict rho,
                  float *restrict press) {
  for (int j = 0; j < H * W; j++) {
    float a = t[j], b = s[j];
    float salt = ((((5.3875e-9f * a - 8.2467e-7f) * a + 7.6438e-5f) * a - 4.0899e-3f) * a + 0.824493f) * b;
    float root = ((-1.6546e-6f * a + 1.0227e-4f) * a - 5.72466e-3f) * b * sqrtf(b);
    float fresh = ((((6.536332e-9f * a - 1.120083e-6f) * a + 1.001685e-4f) * a - 9.09529e-3f) * a + 6.793952e-2f) * a - 0.157406f;
    float r = fresh + salt + root + b * b * 4.8314e-4f, half = (r + 1000) * (4.905e-4f * deep);
    rho[j] = r;
    press[j] = above[j] + half;
    above[j] += 2 * half;
  }
}
void kernel(const float (*restrict t)[H * W], const float (*restrict s)[H * W], const float *restrict deep, float (*restrict rho)[H * W],
            float (*restrict press)[H * W]) {
  float above[H * W];
  for (int j = 0; j < H * W; j++) above[j] = 0;
  for (int k = 0; k < L; k++) layer(t[k], s[k], deep[k], above, rho[k], press[k]);
}

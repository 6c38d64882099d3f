#include <math.h>
static float ramp(float v) { return v < 0 ? 0 : v > 1 ? 1 : v; }
void kernel(const unsigned short (*restrict image)[W], const float *restrict x, const float *restrict y, float *restrict flux,
            float *restrict sky, float *restrict snr) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int cy = (int)rintf(y[i]), cx = (int)rintf(x[i]);
    float light = 0, area = 0, ring = 0, many = 0;
    for (int a = cy - 10; a <= cy + 10; a++)
      for (int b = cx - 10; b <= cx + 10; b++) {
        float far = sqrtf((a - y[i]) * (a - y[i]) + (b - x[i]) * (b - x[i]));
        float in = ramp(5.5f - far), out = ramp(far - 6.5f) * ramp(9.5f - far);
        light += in * image[a][b], area += in;
        ring += out * image[a][b], many += out;
      }
    sky[i] = ring / many;
    flux[i] = light - sky[i] * area;
    snr[i] = flux[i] / sqrtf(fabsf(flux[i]) * 0.7f + area * (sky[i] * 0.7f + 25));
  }
}

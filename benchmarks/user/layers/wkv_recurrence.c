#include <math.h>
static void step(const float *restrict k, const float *restrict v, const float *restrict r, const float *restrict w, float *restrict top,
                 float *restrict num, float *restrict den, float *restrict y) {
  for (int j = 0; j < C; j++) {
    float faded = top[j] - w[j], t = faded > k[j] ? faded : k[j], old = expf(faded - t), new = expf(k[j] - t);
    num[j] = num[j] * old + v[j] * new;
    den[j] = den[j] * old + new;
    top[j] = t;
    y[j] = num[j] / (den[j] * (1 + expf(-r[j])));
  }
}
void kernel(const float (*restrict k)[C], const float (*restrict v)[C], const float (*restrict r)[C], const float *restrict w,
            float (*restrict y)[C]) {
  float top[C], num[C], den[C];
  for (int j = 0; j < C; j++) top[j] = -1e30f, num[j] = den[j] = 0;
  for (int i = 0; i < T; i++) step(k[i], v[i], r[i], w, top, num, den, y[i]);
}

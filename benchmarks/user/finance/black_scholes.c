#include <math.h>
void kernel(const float *restrict spot, const float *restrict strike, const float *restrict years,
            const float *restrict percent,
            float *restrict call, float *restrict put) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float vol = percent[i] * 0.01f, width = vol * sqrtf(years[i]);
    float d1 = (logf(spot[i] / strike[i]) + (0.03f + 0.5f * vol * vol) * years[i]) / width, d2 = d1 - width;
    float later = strike[i] * expf(-0.03f * years[i]);
    call[i] = spot[i] * (0.5f + 0.5f * erff(d1 * 0.70710678f)) - later * (0.5f + 0.5f * erff(d2 * 0.70710678f));
    put[i] = call[i] + later - spot[i];
  }
}

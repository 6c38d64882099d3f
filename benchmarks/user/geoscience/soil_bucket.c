static void day(const float *restrict rain, const float *restrict drunk, const float *restrict deep, float *restrict wet,
                float *restrict water, float *restrict runoff) {
#pragma omp parallel for simd
  for (int j = 0; j < C; j++) {
    float v = wet[j] + rain[j] - drunk[j];
    runoff[j] = v > deep[j] ? v - deep[j] : 0;
    water[j] = wet[j] = v > deep[j] ? deep[j] : v < 0 ? 0 : v;
  }
}
void kernel(const float (*restrict rain)[C], const float (*restrict drunk)[C], const float *restrict deep, float (*restrict water)[C],
            float (*restrict runoff)[C]) {
  float wet[C];
  for (int j = 0; j < C; j++) wet[j] = 0.5f * deep[j];
  for (int i = 0; i < T; i++) day(rain[i], drunk[i], deep, wet, water[i], runoff[i]);
}

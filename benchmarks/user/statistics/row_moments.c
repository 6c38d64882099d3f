#include <math.h>
void kernel(const float (*restrict x)[N], float *restrict average, float *restrict deviation, float *restrict skewness,
            float *restrict kurtosis) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float mean = 0, second = 0, third = 0, fourth = 0;
    for (int j = 0; j < N; j++) mean += x[i][j];
    mean /= N;
    for (int j = 0; j < N; j++) {
      float d = x[i][j] - mean, dd = d * d;
      second += dd;
      third += dd * d;
      fourth += dd * dd;
    }
    second /= N, third /= N, fourth /= N;
    average[i] = mean;
    deviation[i] = sqrtf(second);
    skewness[i] = third / (second * sqrtf(second));
    kurtosis[i] = fourth / (second * second) - 3;
  }
}

#include <math.h>
void kernel(const float (*restrict x)[N], float *restrict means, float *restrict variances,
            float *restrict minima, float *restrict maxima) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float total = 0, squares = 0, least = x[i][0], largest = x[i][0];
    for (int j = 0; j < N; j++) {
      total += x[i][j];
      least = fminf(least, x[i][j]);
      largest = fmaxf(largest, x[i][j]);
    }
    float mean = total / N;
    for (int j = 0; j < N; j++) squares += (x[i][j] - mean) * (x[i][j] - mean);
    means[i] = mean;
    variances[i] = squares / N;
    minima[i] = least;
    maxima[i] = largest;
  }
}

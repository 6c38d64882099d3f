#include <math.h>
void kernel(const double *restrict lat, const double *restrict lon, const double *restrict lat2,
            const double *restrict lon2, double (*restrict km)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      double up = sin((lat2[j] - lat[i]) * 0.5), across = sin((lon2[j] - lon[i]) * 0.5);
      double h = up * up + cos(lat[i]) * cos(lat2[j]) * across * across;
      km[i][j] = 12742 * asin(sqrt(h < 1 ? h : 1));
    }
}

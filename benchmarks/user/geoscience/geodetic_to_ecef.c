#include <math.h>
void kernel(const double (*restrict x)[3], double (*restrict y)[3]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double lat = x[i][0] * 0.017453292519943295, lon = x[i][1] * 0.03490658503988659, high = x[i][2];
    double s = sin(lat), c = cos(lat), r = 6378137.0 / sqrt(1 - 0.0066943799901413165 * s * s);
    y[i][0] = (r + high) * c * cos(lon);
    y[i][1] = (r + high) * c * sin(lon);
    y[i][2] = (r * (1 - 0.0066943799901413165) + high) * s;
  }
}

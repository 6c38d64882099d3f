#include <math.h>
void kernel(const float (*restrict shift)[W][2], const double *restrict row, const double *restrict column, double (*restrict old)[2]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double y = row[i], x = column[i];
    for (int k = 0; k < 4; k++) {
      double fy = floor(y), fx = floor(x);
      fy = fy < 0 ? 0 : fy > H - 2 ? H - 2 : fy, fx = fx < 0 ? 0 : fx > W - 2 ? W - 2 : fx;
      double a = y - fy, b = x - fx;
      const float (*p)[2] = &shift[(int)fy][(int)fx], (*q)[2] = p + W;
      y = row[i] - ((1 - a) * ((1 - b) * p[0][0] + b * p[1][0]) + a * ((1 - b) * q[0][0] + b * q[1][0]));
      x = column[i] - ((1 - a) * ((1 - b) * p[0][1] + b * p[1][1]) + a * ((1 - b) * q[0][1] + b * q[1][1]));
    }
    old[i][0] = y, old[i][1] = x;
  }
}

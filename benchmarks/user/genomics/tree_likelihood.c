#include <math.h>
typedef const double (*restrict parts)[4][4];
void kernel(parts left, parts right, parts pl, parts pr, const double *restrict scale, const int *restrict weight,
            const double *restrict base, double (*restrict root)[4][4], double *restrict scaled, double *restrict likelihood) {
  double total = 0;
#pragma omp parallel for reduction(+ : total)
  for (int i = 0; i < S; i++) {
    double both[4][4], top = 0, like = 0;
    for (int r = 0; r < 4; r++)
      for (int a = 0; a < 4; a++) {
        double x = 0, y = 0;
        for (int b = 0; b < 4; b++) x += pl[r][a][b] * left[i][r][b], y += pr[r][a][b] * right[i][r][b];
        both[r][a] = x * y;
        top = x * y > top ? x * y : top;
        like += base[a] * x * y;
      }
    for (int r = 0; r < 4; r++)
      for (int a = 0; a < 4; a++) root[i][r][a] = both[r][a] / top;
    scaled[i] = scale[i] + log(top);
    total += (log(like * 0.25) + scale[i]) * weight[i];
  }
  *likelihood = total;
}
